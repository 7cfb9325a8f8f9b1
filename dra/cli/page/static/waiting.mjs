// Claims that pods wait for, equal ones in one entry: why, and the safe next step.
import { html, useMemo } from "./lib.mjs";
import { Filter, useFiltered } from "./lists.mjs";
import { Copy, Empty, Loading, State } from "./parts.mjs";
import { objectLink } from "./route.mjs";
import { useView } from "./store.mjs";
import { useWindow } from "./table.mjs";
import { plural } from "./words.mjs";

const HEIGHT = 124;

export const byPods = (rows, at) =>
  [...rows].sort((a, b) => b[at.WAITING] - a[at.WAITING] || (a[0] < b[0] ? -1 : 1));

export const Group = ({ row, at }) => html`<a class="object" href=${objectLink("claim", row[0])}>${row[0]}</a>
  ${row[at.EQUAL] === "0" ? null : html`<span title=${row[at.NAMES]}> and ${plural(+row[at.EQUAL], "equal claim")} </span>`}
  <span class="muted">${plural(+row[at.WAITING], "pod")} waiting</span>`;

export function Waiting({ route }) {
  const table = useView("waiting");
  const found = useFiltered(table, route.query.get("q") ?? "");
  const rows = useMemo(() => (table ? byPods(found, table.at) : []), [found]);
  const { box, measure, from, to } = useWindow(rows.length, HEIGHT);
  if (!table) return html`<${Loading} />`;
  const { at } = table;
  return html`<header class="head"><h1>Waiting</h1><p class="count" role="status">${plural(rows.reduce((sum, row) => sum + 1 + +row[at.EQUAL], 0), "claim")}</p><${Filter} route=${route} /></header>
    <div class="scroll" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label="Waiting claims">
    ${rows.length === 0 ? html`<${Empty} title="Nothing waits">Every pod that names a claim has its devices, or the filter hides the others.<//>` : null}
    <ol class="waiting" style=${{ paddingTop: `${from * HEIGHT}px`, paddingBottom: `${Math.max(0, rows.length - to) * HEIGHT}px` }}>
      ${rows.slice(from, to).map((row) => html`<li key=${row[0]}>
        <p class="waiting-head"><${Group} row=${row} at=${at} /> <${State} value=${row[at.STATE]} grade=${row[at.GRADE]} />
          ${row[at.FOR] === "<none>" ? null : html`<a class="muted" href=${objectLink("workload", `${row[at.NAMESPACE]}/${row[at.FOR]}`)}>${row[at.FOR]}</a>`}</p>
        <p class="why" title=${row[at.WHY]}>${row[at.WHY] || "The scheduler has not said why yet."}</p>
        ${row[at.NEXT] ? html`<${Copy} text=${row[at.NEXT]} />` : null}</li>`)}</ol></div>`;
}
