// The first view: how much is used, what needs a hand, and what the page cannot see.
import { html } from "./lib.mjs";
import { Bar, Copy, Empty, Loading, State } from "./parts.mjs";
import { link, objectLink } from "./route.mjs";
import { listOf, useView } from "./store.mjs";
import { Group, byPods } from "./waiting.mjs";
import { DEVICE_STATES, look, number, plural, problems as countProblems } from "./words.mjs";

const ORDER = {
  devices: DEVICE_STATES.map(([, state]) => state),
  claims: ["InUse", "Reserved", "Pending", "Deleting"],
  problems: ["error", "leak", "warning", "info"],
};

export function sections(table) {
  const found = {};
  for (const [, section, name, value] of listOf(table)) (found[section] ??= {})[name] = value;
  return found;
}

const Card = ({ title, view, counts = {}, order = [], column = "state", noun, grade }) => {
  const names = [...order.filter((name) => name in counts), ...Object.keys(counts).filter((name) => !order.includes(name))];
  const parts = names.map((name) => [name, Number(counts[name]), look(name, grade)[1]]);
  const total = parts.reduce((sum, [name, count]) => sum + (name === "info" ? 0 : count), 0);
  return html`<section class="card"><h2><a href=${link(view)}>${title}</a></h2>
    <p class="figure">${number(total)}<span>${noun(total)}</span></p>
    <${Bar} parts=${parts} total=${parts.length} />
    <ul class="counts">${parts.map(([name, count]) => html`<li key=${name}>
      <a href=${link(view, [], { q: `${column}:${name === "Used" ? "Held" : name}` })}><${State} value=${name} grade=${grade} /><b>${number(count)}</b></a></li>`)}</ul></section>`;
};

const Fact = ({ name, value = "unknown", label, text }) => html`<div><dt>${name}</dt>
  <dd><${State} value=${value} label=${label} /> <span class="muted">${text}</span></dd></div>`;

function byReason(gaps = {}) {
  const found = {};
  for (const [name, why] of Object.entries(gaps)) (found[why] ??= []).push(name);
  return found;
}

const noun = (word) => (total) => ` ${word}${total === 1 ? "" : "s"}`;

export function Overview() {
  const overview = useView("overview");
  const groups = useView("waiting");
  const problems = useView("problems");
  if (!overview?.ready || !groups) return html`<${Loading} />`;
  const found = sections(overview);
  const waiting = byPods(listOf(groups), groups.at);
  const worst = problems ? listOf(problems).filter((row) => row[1] !== "info").slice(0, 5) : [];
  return html`<header class="head"><h1>Overview</h1><p class="count">
      ${[...["nodes", "pods"].filter((kind) => kind in found.cluster).map((kind) => plural(Number(found.cluster[kind]), kind.slice(0, -1))),
        found.cluster.server && `Kubernetes ${found.cluster.server}`].filter(Boolean).join(", ")}</p></header>
    <div class="page-scroll" tabindex="0" role="region" aria-label="Overview"><div class="cards">
      ${found.denied?.devices ? null : html`<${Card} title="Devices" view="devices" counts=${found.devices} order=${ORDER.devices} noun=${noun("device")} />`}
      <${Card} title="Claims" view="claims" counts=${found.claims} order=${ORDER.claims} noun=${noun("claim")} />
      <${Card} title="Problems" view="problems" counts=${found.problems} order=${ORDER.problems} column="grade" noun=${noun("problem")} />
      ${found.absent?.reservations ?? found.denied?.reservations ? null : html`<${Card} title="Reservations" view="reservations" counts=${found.reservations} column="phase" noun=${noun("Reservation")} />`}
      ${found.absent?.migrations ?? found.denied?.migrations ? null : html`<${Card} title="Migrations" view="migrations" counts=${found.migrations} column="phase" noun=${noun("migration")} />`}
    </div>
    <div class="columns">
      <section class="panel"><h2><a href=${link("waiting")}>Waiting claims</a></h2>
        ${waiting.length ? html`<ul class="rows">${waiting.slice(0, 5).map((row) => html`<li key=${row[0]}>
            <${Group} row=${row} at=${groups.at} /><p class="why">${row[groups.at.WHY] || "It is not known why yet."}</p></li>`)}</ul>
            ${waiting.length > 5 ? html`<p class="more"><a href=${link("waiting")}>${number(waiting.length - 5)} more</a></p>` : null}`
          : html`<${Empty} title="Nothing waits">Every pod that names a claim has its devices.<//>`}</section>
      <section class="panel"><h2><a href=${link("problems")}>What needs a hand</a></h2>
        ${worst.length ? html`<ul class="rows">${worst.map((row) => html`<li key=${row[0]}>
            <${State} value=${row[1]} label=${row[2]} /> <span class="muted">${row[3]}</span><p>${row[4]}</p>
            ${row[6] ? html`<${Copy} text=${row[6]} />` : null}</li>`)}</ul>`
          : html`<${Empty} title=${countProblems(0, Number(found.problems?.info ?? 0))}>No device is held twice, leaked or gone.<//>`}</section>
      <section class="panel"><h2>Cluster</h2><dl class="facts">
        ${["controller", "descheduler"].filter((name) => found[name] && !(name === "descheduler" && (found.absent?.migrations ?? found.denied?.migrations))).map((name) => {
          const [[presence, text]] = Object.entries(found[name]);
          return html`<div key=${name}><dt>${name}</dt><dd><${State} value=${presence} /> <span class="muted">${text}</span></dd></div>`;
        })}
        ${Object.entries(byReason(found.gap)).map(([why, names]) => html`<${Fact} key=${why} name="not read" label=${names.join(", ")} text=${why} />`)}
        ${Object.entries(found.denied ?? {}).map(([name, why]) => html`<${Fact} key=${name} name="not shown" label=${name} text=${why} />`)}
        ${Object.entries(found.stale ?? {}).map(([name, why]) => html`<${Fact} key=${name} name="not live" value="stale" label=${name} text=${why} />`)}
        ${Object.entries(found.absent ?? {}).map(([name, why]) => html`<div key=${name}><dt>${name}</dt><dd class="muted">${why}</dd></div>`)}
      </dl></section>
    </div></div>`;
}
