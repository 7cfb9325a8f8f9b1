// Claims that pods wait for: why, and the safe next step.
import { html, useMemo } from "./lib.mjs";
import { Filter, useFiltered } from "./lists.mjs";
import { Copy, Empty, Loading, State } from "./parts.mjs";
import { objectLink } from "./route.mjs";
import { useView } from "./store.mjs";
import { useWindow } from "./table.mjs";
import { number, plural } from "./words.mjs";

const HEIGHT = 104;

export function Waiting({ route }) {
  const table = useView("claims");
  const q = route.query.get("q") ?? "";
  const found = useFiltered(table, q);
  const rows = useMemo(() => {
    const waiting = found.filter((row) => Number(row[table.at.WAITING]) > 0);
    return waiting.sort((a, b) => Number(b[table.at.WAITING]) - Number(a[table.at.WAITING]) || (a[0] < b[0] ? -1 : 1));
  }, [found]);
  const { box, measure, from, to } = useWindow(rows.length, HEIGHT);
  if (!table) return html`<${Loading} />`;
  const { at } = table;
  return html`<header class="head"><h1>Waiting</h1><p class="count" role="status">${plural(rows.length, "claim")}</p><${Filter} route=${route} /></header>
    <div class="scroll" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label="Waiting claims">
    ${rows.length === 0 ? html`<${Empty} title="Nothing waits">Every pod that names a claim has its devices, or the filter hides the others.<//>` : null}
    <ol class="waiting" style=${{ paddingTop: `${from * HEIGHT}px`, paddingBottom: `${Math.max(0, rows.length - to) * HEIGHT}px` }}>
      ${rows.slice(from, to).map((row) => html`<li key=${row[0]}>
        <p class="waiting-head"><a class="object" href=${objectLink("claim", row[0])}>${row[0]}</a>
          <${State} value=${row[at.STATE]} grade=${row[at.GRADE]} />
          <span class="muted">${number(Number(row[at.WAITING]))} waiting${row[at.FOR] === "<none>" ? "" : `, for ${row[at.FOR]}`}</span></p>
        <p class="why" title=${row[at.WHY]}>${row[at.WHY] || "The scheduler has not said why yet."}</p>
        ${row[at.NEXT] ? html`<${Copy} text=${row[at.NEXT]} />` : null}</li>`)}</ol></div>`;
}
