// The views that are one filterable, sortable table.
import { html, useMemo } from "./lib.mjs";
import { Bar, Dim, Empty, Loading, State } from "./parts.mjs";
import { link, objectLink, setQuery } from "./route.mjs";
import { listOf, tableOf, useView } from "./store.mjs";
import { Table, matcher } from "./table.mjs";
import { Axis, Timeline, timeSpan } from "./timeline.mjs";
import { NONE, duration, number } from "./words.mjs";

const dim = (name) => ({ name, render: (row, at) => html`<${Dim} value=${row[at[name]]} />` });
const count = (name, label) => ({ name, label, align: "number", width: "w-number", render: (row, at) => row[at[name]] });
const state = (name = "STATE") => ({
  name, width: "w-state",
  render: (row, at) => html`<${State} value=${row[at[name]]} grade=${row[at.GRADE]} />`,
});
const strong = (name) => ({ name, render: (row, at) => html`<b>${row[at[name]]}</b>` });

const since = {
  name: "SINCE", width: "w-time",
  render: (row, at) => {
    const then = Date.parse(row[at.SINCE]);
    return Number.isNaN(then) ? html`<${Dim} value="<none>" />` : `${duration((Date.now() - then) / 1000)}`;
  },
};

// The name of a device first, its driver and pool after it: in a list, these are mostly the same.
const deviceName = {
  name: "DEVICE",
  render: (row, at) => {
    const [driver, pool, device] = row[at.DEVICE].split("/");
    return html`<b>${device}</b> <span class="muted">${driver}/${pool}</span>`;
  },
};
const deviceState = {
  name: "STATE", width: "w-state",
  render: (row, at) => html`<${State} value=${row[at.STATE] === "Held" && row[at.PODS] !== "0" ? "Used" : row[at.STATE]} label=${row[at.STATE]} />`,
};

const timeLine = {
  name: "BEGIN", label: "TIME LINE", width: "w-line", rest: true, Head: Axis,
  render: (row, at, span) => html`<${Timeline} row=${row} at=${at} span=${span} phase="PHASE" />`,
};

export const LISTS = {
  workloads: {
    title: "Workloads", sort: "NAMESPACE", filters: ["state:InUse", "state:Reserved", "state:Waiting"],
    open: ([key, namespace, name]) => (name === NONE ? link("claims", [], { q: `namespace:${namespace} for:${NONE}` }) : objectLink("workload", key)),
    empty: ["No workloads", "A workload appears with its first claim."],
    columns: [
      { name: "NAMESPACE" }, { ...strong("FOR"), label: "WORKLOAD" }, state(),
      count("CLAIMS"), count("DEVICES"), count("PODS"), count("WAITING"),
    ],
  },
  claims: {
    title: "Claims", kind: "claim", sort: "NAMESPACE", filters: ["state:InUse", "state:Reserved", "state:Pending"],
    empty: ["No claims", "A ResourceClaim appears here as soon as it exists."],
    columns: [
      { name: "NAMESPACE" }, strong("NAME"), state(), { ...dim("FOR"), label: "WORKLOAD" },
      count("DEVICES"), count("PODS"), count("WAITING"), dim("NODE"), since,
      { ...dim("RELEASED-WHEN"), label: "RELEASED WHEN", text: true, rest: true },
    ],
  },
  devices: {
    title: "Devices", kind: "device", sort: "DEVICE", filters: ["state:Free", "state:Held", "state:Tainted"],
    empty: ["No devices", "No driver publishes ResourceSlices, or you may not read them."],
    columns: [
      deviceName, deviceState, dim("NODE"),
      { ...dim("HELD-BY"), label: "HELD BY" }, count("PODS"), { ...dim("TAINTS"), text: true },
      { ...dim("RELEASED-WHEN"), label: "RELEASED WHEN", text: true, rest: true },
    ],
  },
  reservations: {
    title: "Reservations", kind: "reservation", sort: "NAME", filters: ["phase:Available", "phase:Pending"],
    empty: ["No Reservations", "Hold room for pods that do not exist yet: kubectl dra reserve --help"],
    columns: [
      strong("NAME"), state("PHASE"), dim("NODE"), { ...dim("ALLOCATED"), label: "USED", text: true }, { ...dim("OF"), text: true }, count("OWNERS"),
      { ...dim("ENDS"), width: "w-time" },
      timeLine,
    ],
  },
  migrations: {
    title: "Migrations", kind: "migration", sort: "NAME", filters: ["phase:Running", "phase:Failed", "step:approval"],
    empty: ["No migrations", "Move a pod without losing its room: kubectl dra migrate --help"],
    columns: [
      strong("NAME"), state("PHASE"), dim("POD"), dim("FROM"), dim("TO"), { ...dim("AGE"), width: "w-time" },
      { ...dim("STEP"), text: true }, dim("PLUGIN"),
      timeLine,
    ],
  },
  rounds: {
    title: "Rounds", sort: "ROUND", desc: "1", filters: [], open: (row) => link("migrations", [], { q: `round:${row[0]}` }),
    empty: ["No rounds", "Descheduling moves pods in rounds: kubectl dra deschedule --help"],
    columns: [
      strong("ROUND"), dim("PROFILES"), { ...dim("PLUGINS"), text: true, rest: true }, count("JOBS"),
      count("UNAPPROVED", "TO APPROVE"), count("WAITING"), count("MOVING"), count("MOVED"), count("ENDED", "FAILED"),
    ],
  },
};

export const Filter = ({ route, placeholder, filters = [] }) => {
  const q = route.query.get("q") ?? "";
  return html`<div class="filter" role="search">
    <input id="filter" type="search" value=${q} placeholder=${placeholder ?? "Filter: words, or column:word"} aria-label="Filter rows"
      onInput=${(event) => setQuery(route, { q: event.target.value })} />
    ${filters.map((each) => html`<button key=${each} type="button" class="chip" aria-pressed=${q.includes(each)}
      onClick=${() => setQuery(route, { q: q === each ? "" : each })}>${each.split(":")[1]}</button>`)}</div>`;
};

export function useFiltered(table, q) {
  return useMemo(() => {
    if (!table) return [];
    const list = listOf(table);
    return q ? list.filter(matcher(q, table.at)) : list;
  }, [table, table?.version, q]);
}

export function ListView({ view, route }) {
  const list = LISTS[view];
  const table = useView(view);
  const q = route.query.get("q") ?? "";
  const rows = useFiltered(table, q);
  const span = useMemo(() => (table && "BEGIN" in table.at ? timeSpan(rows, table.at) : null), [rows]);
  const columns = useMemo(
    () => table && list.columns.map((each) => ({
      ...each, index: table.at[each.name], span,
      render: each.render && ((row) => each.render(row, table.at, span)),
    })),
    [table, view, span],
  );
  if (!table) return html`<${Loading} />`;
  const sort = route.query.get("sort") ?? list.sort;
  const descending = (route.query.get("desc") ?? list.desc) === "1";
  const onSort = (name) => setQuery(route, { sort: name, desc: name === sort && !descending ? "1" : "0" });
  return html`<header class="head"><h1>${list.title}</h1><p class="count" role="status">
      ${rows.length === table.rows.size ? number(rows.length) : `${number(rows.length)} of ${number(table.rows.size)}`}</p>
      <${Filter} route=${route} filters=${list.filters} /></header>
    ${rows.length
      ? html`<${Table} label=${list.title} columns=${columns} rows=${rows} sort=${sort} descending=${descending}
          onSort=${onSort} onOpen=${(row) => { location.hash = list.open ? list.open(row) : objectLink(list.kind, row[0]); }} />`
      : q
        ? html`<${Empty} title="Nothing matches">Clear the filter, or use words that occur in a row.<//>`
        : html`<${Empty} title=${table.ready ? list.empty[0] : "Reading the cluster…"}>${table.ready ? list.empty[1] : ""}<//>`}`;
}

const GROUPS = ["namespace", "workload", "node", "class"];

export function UsageView({ route }) {
  const table = useView("usage");
  const by = route.query.get("by") ?? "namespace";
  const q = route.query.get("q") ?? "";
  const found = useFiltered(table, q);
  const rows = useMemo(() => found.filter((row) => row[table.at.BY] === by), [found, by]);
  const most = useMemo(() => Math.max(1, ...rows.map((row) => Number(row[table.at.DEVICES] || row[table.at.HELD]))), [rows]);
  if (!table) return html`<${Loading} />`;
  const { at } = table;
  const bar = {
    name: "HELD", label: "DEVICES", width: "w-line", rest: true,
    render: (row) => {
      const [used, held] = [Number(row[at.USED]), Number(row[at.HELD])];
      const all = Number(row[at.DEVICES] || held);
      return html`<span class="usage"><span class="usage-bar" style=${{ width: `${(100 * all) / most}%` }}>
        <${Bar} total=${all} parts=${[["used", used, "green"], ["held", held - used, "blue"], ["free", all - held, "grey"]]} /></span></span>`;
    },
  };
  const columns = [
    { ...strong("NAME"), label: by.toUpperCase() }, count("HELD"), count("USED"), count("HELD%"),
    ...(by === "node" ? [count("DEVICES", "OFFERED")] : []), count("PODS"), count("CLAIMS"), bar,
  ].map((each, position) => ({
    ...each, name: each === bar ? "BAR" : each.name, index: at[each.name], key: position, render: each.render && ((row) => each.render(row, at)),
  }));
  const sort = route.query.get("sort") ?? "HELD";
  const descending = (route.query.get("desc") ?? (sort === "HELD" ? "1" : "")) === "1";
  const open = (row) => {
    const name = row[at.NAME];
    location.hash = by === "node" ? link("node", [name]) : by === "workload" && !name.endsWith(NONE) ? objectLink("workload", name) : link("claims", [], { q: by === "namespace" ? `namespace:${name}` : "" });
  };
  return html`<header class="head"><h1>Usage</h1><div class="tabs" role="group" aria-label="Group by">
      ${GROUPS.filter((each) => each !== "node" || !tableOf("overview")?.rows.has("denied/nodes")).map((each) => html`<button key=${each} type="button" aria-pressed=${each === by}
        onClick=${() => setQuery(route, { by: each, sort: "", desc: "" })}>${each}</button>`)}</div>
      <${Filter} route=${route} /></header>
    <p class="legend"><${State} value="Used" label="used by pods" /><${State} value="Held" label="held, not used" />
      ${by === "node" ? html`<${State} value="Free" label="free" />` : null}</p>
    ${rows.length
      ? html`<${Table} label=${`Usage by ${by}`} columns=${columns} rows=${rows} sort=${sort} descending=${descending}
          onSort=${(name) => setQuery(route, { sort: name, desc: name === sort && descending ? "0" : "1" })} onOpen=${open} />`
      : html`<${Empty} title="No devices are held">Usage appears once a claim has devices.<//>`}`;
}
