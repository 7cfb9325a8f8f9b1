// Workloads with their claims, devices and pods, as a tree that opens step by step.
import { html, useEffect, useMemo, useState } from "./lib.mjs";
import { Filter, useFiltered } from "./lists.mjs";
import { Empty, Loading, State } from "./parts.mjs";
import { objectLink } from "./route.mjs";
import { getJson } from "./session.mjs";
import { useView } from "./store.mjs";
import { useWindow } from "./table.mjs";
import { number, plural } from "./words.mjs";

const HEIGHT = 34;
const NAMED = 20;

function usePods(key, version) {
  const [pods, set] = useState(null);
  useEffect(() => {
    let current = true;
    const [namespace, name] = key.split("/");
    getJson(`api/object?kind=claim&namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`)
      .then(({ links: { pods = [], devices = [] } }) => current && set({ pods, devices }), () => current && set({ pods: [], devices: [] }));
    return () => { current = false; };
  }, [key, version]);
  return pods;
}

const Members = ({ row, at }) => {
  const found = usePods(row[0], row.join());
  if (!found) return html`<p class="muted member">…</p>`;
  const users = Number(row[at.PODS]) + Number(row[at.WAITING]);
  const devices = Number(row[at.DEVICES]);
  return html`<div class="members"><div><h3>${plural(devices, "device")}</h3><ul>${found.devices.slice(0, NAMED).map((name) => html`<li key=${name}><a href=${objectLink("device", name)}>${name}</a></li>`)}
      ${devices > NAMED ? html`<li class="muted">${number(devices - NAMED)} more</li>` : null}</ul></div>
    <div><h3>${plural(users, "pod")}</h3><ul>${found.pods.map((name) => html`<li key=${name}><a href=${objectLink("pod", name)}>${name}</a></li>`)}
      ${users > found.pods.length ? html`<li class="muted">${number(users - found.pods.length)} more</li>` : null}</ul></div></div>`;
};

export function Workloads({ route }) {
  const table = useView("claims");
  const q = route.query.get("q") ?? "";
  const found = useFiltered(table, q);
  const [open, setOpen] = useState(() => new Set());
  const [chosen, choose] = useState("");
  const groups = useMemo(() => {
    const byOwner = Map.groupBy(found, (row) => `${row[table.at.NAMESPACE]} ${row[table.at.FOR]}`);
    return [...byOwner].sort(([a], [b]) => (a < b ? -1 : 1));
  }, [found]);
  const lines = useMemo(() => groups.flatMap(([owner, rows]) => [[owner, rows, null], ...(open.has(owner) || groups.length <= 12 ? rows.map((row) => [owner, rows, row]) : [])]), [groups, open]);
  const { box, measure, from, to } = useWindow(lines.length, HEIGHT);
  if (!table) return html`<${Loading} />`;
  const { at } = table;
  const toggle = (owner) => setOpen((before) => { const after = new Set(before); after.delete(owner) || after.add(owner); return after; });
  const sum = (rows, name) => rows.reduce((total, row) => total + Number(row[at[name]]), 0);
  const current = chosen && table.rows.get(chosen);
  return html`<header class="head"><h1>Workloads</h1><p class="count" role="status">${plural(groups.length, "workload")}, ${plural(found.length, "claim")}</p><${Filter} route=${route} /></header>
    <div class="split"><div class="scroll" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label="Workloads">
      ${lines.length === 0 ? html`<${Empty} title=${q ? "Nothing matches" : "No claims"}>A workload appears with its first claim.<//>` : null}
      <ul class="tree" style=${{ paddingTop: `${from * HEIGHT}px`, paddingBottom: `${Math.max(0, lines.length - to) * HEIGHT}px` }}>
      ${lines.slice(from, to).map(([owner, rows, row]) => {
        const [namespace, workload] = owner.split(" ");
        return row
          ? html`<li key=${row[0]} class="leaf"><button type="button" aria-pressed=${chosen === row[0]} onClick=${() => choose(row[0])}><b>${row[at.NAME]}</b>
              <${State} value=${row[at.STATE]} grade=${row[at.GRADE]} /><span class="numbers">${plural(Number(row[at.DEVICES]), "device")} · ${plural(Number(row[at.PODS]), "pod")}${row[at.WAITING] === "0" ? "" : ` · ${row[at.WAITING]} waiting`}</span></button></li>`
          : html`<li key=${owner} class="branch"><button type="button" aria-expanded=${open.has(owner) || groups.length <= 12} onClick=${() => toggle(owner)}>
              <span class="twist" aria-hidden="true">${open.has(owner) || groups.length <= 12 ? "▾" : "▸"}</span><span class="muted">${namespace}</span> <b>${workload === "<none>" ? "no workload" : workload}</b>
              <span class="numbers">${plural(rows.length, "claim")} · ${plural(sum(rows, "DEVICES"), "device")} · ${plural(sum(rows, "PODS"), "pod")}</span></button></li>`;
      })}</ul></div>
      ${current ? html`<aside class="side" aria-label="Claim"><h2><a href=${objectLink("claim", chosen)}>${chosen}</a></h2>
        <p><${State} value=${current[at.STATE]} grade=${current[at.GRADE]} /></p>
        ${current[at["RELEASED-WHEN"]] === "<none>" ? null : html`<p class="muted">released when ${current[at["RELEASED-WHEN"]]}</p>`}
        <${Members} row=${current} at=${at} /></aside>` : null}</div>`;
}
