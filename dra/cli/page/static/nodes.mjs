// A map of the cluster: one card a node, one square a device. Only the cards in sight exist.
import { html, useEffect, useMemo, useRef, useState } from "./lib.mjs";
import { Filter, useFiltered } from "./lists.mjs";
import { Bar, Empty, Loading, State } from "./parts.mjs";
import { link } from "./route.mjs";
import { useView } from "./store.mjs";
import { sorted, useWindow } from "./table.mjs";
import { DEVICE_STATES, duration, look, number, plural, stateOfLetter } from "./words.mjs";

const CARD_WIDTH = 236;
const SQUARES_MAX = 32; // above that, a card shows numbers and a bar
const HEIGHT = 112;
const HEIGHT_OF_METERS = 66;

const Squares = ({ letters }) => {
  if (letters.length > SQUARES_MAX) {
    return html`<span class="bar big" aria-hidden="true">${DEVICE_STATES.map(([letter, state]) => {
      const count = letters.split(letter).length - 1;
      return count ? html`<i key=${letter} class=${look(state)[1]} style=${{ flexGrow: count }}></i>` : null;
    })}</span>`;
  }
  return html`<span class="squares" aria-hidden="true">${[...letters].map((letter, index) => {
    const [glyph, tone] = look(stateOfLetter[letter]);
    return html`<i key=${index} class="${tone} s-${letter === "?" ? "unknown" : letter}">${glyph}</i>`;
  })}</span>`;
};

// Times of today as hours and minutes, in the user's time zone.
const times = (text) => text.replace(/\d{4}-\d\d-\d\dT[\d:]+Z/g, (found) => new Date(found).toTimeString().slice(0, 5));

const summary = (letters) =>
  DEVICE_STATES.map(([letter, state]) => [letters.split(letter).length - 1, state]).filter(([count]) => count)
    .map(([count, state]) => `${number(count)} ${state.toLowerCase()}`).join(", ") || "no devices";

const METERS = [["CPU", 1000, ""], ["MEMORY", 2 ** 30, "G"], ["BATCH-CPU", 1000, ""]];
const hasMeters = (row, at) => row[at.SAMPLED] || row[at["BATCH-CPU"]];

// A cell is used/held/capacity, of batch resources held/offered; what is unknown is empty.
const Meter = ({ name, cell, unit, suffix }) => {
  const numbers = cell.split("/");
  const whole = +numbers.at(-1);
  const [used, most] = [Math.min(numbers[0], whole), Math.min(Math.max(...numbers.slice(0, -1)), whole)];
  const parts = numbers.length > 2 ? [["used", used, "green"], ["held", most - used, "blue"]] : [["held", used, "blue"]];
  const short = numbers.map((each) => (each === "" ? "?" : +(each / unit).toFixed(1)));
  return html`<span class="meter">${name.toLowerCase().split("-")[0]}<${Bar} total=${whole} parts=${[...parts, ["free", whole - most, "grey"]]} /><b>${short.join(" / ")}${suffix}</b></span>`;
};

const Sampled = ({ text }) => {
  if (!text || text === "fresh") return null;
  const then = Date.parse(text.slice(6));
  return html`<${State} value="stale" label=${then ? `${duration((Date.now() - then) / 1000)} old` : "no report"} />`;
};

export function Nodes({ route }) {
  const table = useView("nodes");
  const q = route.query.get("q") ?? "";
  const found = useFiltered(table, q);
  const all = route.query.get("all") === "1";
  const rows = useMemo(
    () => (table ? sorted(found.filter((row) => all || q || row[table.at.DEVICES] !== "0" || row[table.at.STATE] !== "Ready" || hasMeters(row, table.at)), 1) : []),
    [found, all, q],
  );
  const metered = useMemo(() => rows.some((row) => hasMeters(row, table.at)), [rows]);
  const height = HEIGHT + (metered ? HEIGHT_OF_METERS : 0);
  const outer = useRef(null);
  const [width, setWidth] = useState(1000);
  const across = Math.max(1, Math.floor(width / CARD_WIDTH));
  const lines = Math.ceil(rows.length / across);
  const { box, measure, from, to } = useWindow(lines, height);
  useEffect(() => {
    if (!outer.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    observer.observe(outer.current);
    return () => observer.disconnect();
  }, [table === null]);
  if (!table) return html`<${Loading} />`;
  const { at } = table;
  const hidden = table.rows.size - rows.length;
  return html`<header class="head"><h1>Nodes</h1><p class="count" role="status">${number(rows.length)}</p><${Filter} route=${route}
      filters=${["state:NotReady", "state:SchedulingDisabled"]} /></header>
    <p class="legend">${DEVICE_STATES.map(([, state]) => html`<${State} key=${state} value=${state} label=${{ Used: "used by pods", Held: "held, not used" }[state] ?? state.toLowerCase()} />`)}
      ${metered ? html`<span>bars: used / held by requests / all; batch CPUs: held / offered</span>` : null}
      ${hidden > 0 && !q && !all ? html`<a href=${link("nodes", [], { all: "1" })}>and ${plural(hidden, "node")} without devices</a>` : null}</p>
    <div ref=${outer} class="measure"></div>
    <div class="scroll" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label="Map of the nodes">
      ${rows.length === 0 ? html`<${Empty} title=${q ? "Nothing matches" : "No node has devices"}>Nodes appear when a driver publishes their devices.<//>` : null}
      <ul class=${metered ? "map metered" : "map"} style=${{ paddingTop: `${from * height}px`, paddingBottom: `${Math.max(0, lines - to) * height}px`, gridTemplateColumns: `repeat(${across}, 1fr)` }}>
        ${rows.slice(from * across, to * across).map((row) => html`<li key=${row[0]}>
          <a class="node" href=${link("node", [row[at.NODE]])}>
            <span class="node-head"><b>${row[at.NODE] === "<any>" ? "any node" : row[at.NODE]}</b>${row[at.STATE] === "Ready" || row[at.STATE] === "" ? null : html`<${State} value=${row[at.STATE]} label=${row[at.STATE].replace("Ready,SchedulingDisabled", "cordoned")} />`}<${Sampled} text=${row[at.SAMPLED]} /></span>
            <${Squares} letters=${row[at.MAP]} />
            <span class="node-foot">${summary(row[at.MAP])}</span>
            ${METERS.map(([name, unit, suffix]) => row[at[name]] && html`<${Meter} key=${name} name=${name} cell=${row[at[name]]} unit=${unit} suffix=${suffix} />`)}
            ${row[at.RESERVATIONS] === "<none>" ? null : html`<span class="node-foot kept">reserved: ${times(row[at.RESERVATIONS])}</span>`}
          </a></li>`)}</ul></div>`;
}
