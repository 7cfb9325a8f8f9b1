// Bars from a begin to an end on one common axis; now is a line.
import { html } from "./lib.mjs";
import { look } from "./words.mjs";

const DAY = 86_400_000;

// The axis: from the first begin to the last end, at most 14 days from now.
export function timeSpan(rows, at) {
  const now = Date.now();
  let [from, to] = [now - 3_600_000, now + 3_600_000];
  for (const row of rows) {
    const [begin, end] = [Date.parse(row[at.BEGIN]), Date.parse(row[at.END])];
    if (begin) from = Math.min(from, Math.max(begin, now - 14 * DAY));
    if (end) to = Math.max(to, Math.min(end, now + 14 * DAY));
  }
  return { from, to, now };
}

const STEPS = [10, 30, 60, 180, 360, 720, 1_440, 2_880, 7_200]; // minutes between two ticks
const place = (time, span) => Math.max(0, Math.min(100, (100 * (time - span.from)) / (span.to - span.from)));
const left = (time, span) => ({ left: `${place(time, span)}%` });

// The ticks of the axis: five at most, at round times of the user's time zone.
function ticks(span) {
  const step = 60_000 * (STEPS.find((minutes) => span.to - span.from <= 5 * 60_000 * minutes) ?? 10_080);
  const zone = 60_000 * new Date().getTimezoneOffset();
  const found = [];
  for (let time = Math.ceil((span.from - zone) / step) * step + zone; time < span.to; time += step) found.push(time);
  return [found, step < DAY];
}

export function Axis({ span }) {
  const [found, isShort] = ticks(span);
  return html`<span class="ticks">${found.map((time) => html`<i key=${time} style=${left(time, span)}>
    ${isShort ? new Date(time).toTimeString().slice(0, 5) : new Date(time).toLocaleDateString("en", { month: "short", day: "numeric" })}</i>`)}</span>`;
}

export function Timeline({ row, at, span, phase }) {
  const begin = Date.parse(row[at.BEGIN]);
  if (!begin) return null;
  const end = Date.parse(row[at.END]);
  const over = ["Succeeded", "Failed", "Aborted"].includes(row[at[phase]]);
  const last = end || (over ? span.now : span.to);
  const [, tone] = look(row[at[phase]]);
  const text = `from ${new Date(begin).toLocaleString()}${end ? ` to ${new Date(end).toLocaleString()}` : over ? "" : ", without end"}`;
  return html`<span class="timeline" role="img" aria-label=${text} title=${text}>
    ${ticks(span)[0].map((time) => html`<i key=${time} class="tick" style=${left(time, span)}></i>`)}
    <i class="span ${tone} ${end || over ? "" : "open"}" style=${{ ...left(begin, span), width: `${Math.max(1, place(last, span) - place(begin, span))}%` }}></i>
    <i class="now" style=${left(span.now, span)}></i></span>`;
}
