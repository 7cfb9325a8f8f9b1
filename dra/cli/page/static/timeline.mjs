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

export function Timeline({ row, at, span, phase }) {
  const begin = Date.parse(row[at.BEGIN]);
  if (!begin) return null;
  const end = Date.parse(row[at.END]);
  const place = (time) => Math.max(0, Math.min(100, (100 * (time - span.from)) / (span.to - span.from)));
  const over = ["Succeeded", "Failed", "Aborted"].includes(row[at[phase]]);
  const last = end || (over ? span.now : span.to);
  const [, tone] = look(row[at[phase]]);
  const text = `from ${new Date(begin).toLocaleString()}${end ? ` to ${new Date(end).toLocaleString()}` : over ? "" : ", without end"}`;
  return html`<span class="timeline" role="img" aria-label=${text} title=${text}>
    <i class="span ${tone} ${end || over ? "" : "open"}" style=${{ left: `${place(begin)}%`, width: `${Math.max(1, place(last) - place(begin))}%` }}></i>
    <i class="now" style=${{ left: `${place(span.now)}%` }}></i></span>`;
}
