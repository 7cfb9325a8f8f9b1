// What an audit of the cluster finds: grouped by kind, ten of each, with the next step.
import { html, useMemo, useState } from "./lib.mjs";
import { Filter, useFiltered } from "./lists.mjs";
import { Copy, Empty, Loading, State } from "./parts.mjs";
import { objectLink } from "./route.mjs";
import { useView } from "./store.mjs";
import { number, problems } from "./words.mjs";

const SHOWN = 10;
const SHOWN_MAX = 200;
const GRADES = ["error", "leak", "warning", "info"];

const Subject = ({ text }) => {
  const [kind, name] = text.split(" ");
  return ["claim", "pod", "node", "reservation"].includes(kind.toLowerCase()) && name
    ? html`<a class="object" href=${objectLink(kind.toLowerCase(), name)}>${text}</a>` : html`<span class="object">${text}</span>`;
};

export function Problems({ route }) {
  const table = useView("problems");
  const found = useFiltered(table, route.query.get("q") ?? "");
  const [open, setOpen] = useState(() => new Set());
  const groups = useMemo(() => {
    const byCode = new Map();
    for (const row of found) (byCode.get(row[2]) ?? byCode.set(row[2], []).get(row[2])).push(row);
    return [...byCode].sort(([a, [x]], [b, [y]]) => GRADES.indexOf(x[1]) - GRADES.indexOf(y[1]) || (a < b ? -1 : 1));
  }, [found]);
  if (!table) return html`<${Loading} />`;
  const notes = found.filter((row) => row[1] === "info").length;
  return html`<header class="head"><h1>Problems</h1><p class="count" role="status">${problems(found.length - notes, notes)}</p>
      <${Filter} route=${route} filters=${GRADES.map((each) => `grade:${each}`)} /></header>
    <div class="page-scroll" tabindex="0" role="region" aria-label="Problems">
    ${groups.length === 0 ? html`<${Empty} title="No problems">No device is held twice, leaked or gone, and no pod waits without a reason.<//>` : null}
    ${groups.map(([code, rows]) => {
      const shown = rows.slice(0, open.has(code) ? SHOWN_MAX : SHOWN);
      return html`<section key=${code} class="panel problems"><h2><${State} value=${rows[0][1]} label=${code} /><span class="muted">${rows[0][1]}, ${number(rows.length)}</span></h2>
        <ul class="rows">${shown.map((row) => html`<li key=${row[0]}><${Subject} text=${row[3]} /><p>${row[4]}</p>
          ${row[6] ? html`<${Copy} text=${row[6]} />` : row[5] !== "<none>" ? html`<p class="todo">${row[5]}</p>` : null}</li>`)}</ul>
        ${rows.length > SHOWN && !open.has(code) ? html`<p class="more"><button type="button" class="chip" onClick=${() => setOpen(new Set([...open, code]))}>${number(rows.length - SHOWN)} more</button></p>` : null}
        ${rows.length > SHOWN_MAX && open.has(code) ? html`<p class="more muted">… ${number(rows.length - SHOWN_MAX)} more: use the filter</p>` : null}</section>`;
    })}</div>`;
}
