// One object: the lines of kubectl dra explain, what belongs to it, and what happened while the page was open.
import { html, useEffect, useState } from "./lib.mjs";
import { historyOf } from "./history.mjs";
import { Copy, Empty, Loading, State } from "./parts.mjs";
import { objectLink } from "./route.mjs";
import { getJson } from "./session.mjs";
import { tableOf, useChanges, useView } from "./store.mjs";
import { clock, duration, look } from "./words.mjs";

const AGAIN = 5_000; // ms until objects without rows of their own are read again
const KIND_OF = { pods: "pod", devices: "device", nodes: "node", claims: "claim", reservations: "reservation" };

function useObject(kind, namespace, name, version) {
  const [found, set] = useState(null);
  useEffect(() => set(null), [kind, namespace, name]);
  useEffect(() => {
    let current = true;
    let timer = 0;
    const query = new URLSearchParams({ kind, namespace, name });
    const read = () => getJson(`api/object?${query}`).then(
      (answer) => {
        if (!current) return;
        set(answer);
        timer = setTimeout(read, AGAIN);
      },
      (error) => {
        if (current && error.status === 403) set({ title: "", lines: [], links: { error: [error.message] } });
        timer = current && setTimeout(read, AGAIN);
      },
    );
    timer = setTimeout(read, version ? 150 : 0); // a burst of changes is one question
    return () => { current = false; clearTimeout(timer); };
  }, [kind, namespace, name, version]);
  return found;
}

const GRADES = new Set(["error", "leak", "warning", "info"]);

const Line = ({ label, text }) => html`<div class=${GRADES.has(label) ? `line grade ${look(label)[1]}` : "line"}>
  <dt>${GRADES.has(label) ? html`<${State} value=${label} />` : label}</dt>
  <dd>${label === "next" ? html`<${Copy} text=${text} />` : text}</dd></div>`;

const History = ({ events, opened }) => html`<section class="panel"><h2>Since this page was opened</h2>
  ${events.length ? html`<ol class="history">${events.map(({ at, changes }, index) => html`<li key=${events.length - index}><time>${clock(at)}</time>
    <span>${changes.map(([name, before, after]) => html`<span key=${name} class="change">${name ? html`<em>${name.toLowerCase()}</em> ${before} <span aria-label="to">→</span> ${name === "STATE" ? html`<${State} value=${after} />` : html`<b>${after}</b>`}` : after}</span>`)}</span></li>`)}</ol>`
    : html`<p class="muted">Nothing has changed since ${clock(opened)}.</p>`}</section>`;

const Events = ({ events }) => html`<section class="panel"><h2>Events</h2><ol class="history">
  ${events.map(([at, reason, count, note]) => html`<li key=${at + reason + note}><time title=${at}>${duration((Date.now() - Date.parse(at)) / 1000)}</time>
    <span><b>${reason}</b>${count > 1 ? ` × ${count}` : ""} ${note}</span></li>`)}</ol></section>`;

const opened = new Date();

export function ObjectView({ kind, parts }) {
  const [namespace, name] = parts.length > 1 ? [parts[0], parts.slice(1).join("/")] : ["", parts[0]];
  const key = namespace ? `${namespace}/${name}` : name;
  useChanges();
  useView("claims");
  const row = kind === "claim" ? tableOf("claims")?.rows.get(key) : null;
  const found = useObject(kind, namespace, name, row ? row.join("\0") : "");
  if (!found) return html`<header class="head"><h1>${kind} ${key}</h1></header><${Loading} />`;
  const events = kind === "claim" ? historyOf(key) : [];
  const links = Object.entries(found.links).filter(([group, names]) => group in KIND_OF && names.length);
  return html`<header class="head"><p class="crumb">${kind}</p><h1>${key}</h1>
      ${row ? html`<${State} value=${row[tableOf("claims").at.STATE]} grade=${row[tableOf("claims").at.GRADE]} />` : null}</header>
    <div class="page-scroll" tabindex="0" role="region" aria-label="${kind} ${key}">
    ${found.lines.length === 0
      ? html`<${Empty} title="There is no ${kind} ${key}">${found.links.error?.[0] ?? "It may have been deleted, or you may not read it."}<//>`
      : html`<div class="columns wide"><section class="panel"><h2>${found.title.slice(found.title.indexOf(":") + 1).trim() || "Explained"}</h2>
          <dl class="explained">${found.lines.map(([label, text], index) => html`<${Line} key=${index} label=${label} text=${text} />`)}</dl></section>
        <div>${links.map(([group, names]) => html`<section class="panel" key=${group}><h2>${group}</h2><ul class="names">${names.map((each) => html`<li key=${each}><a href=${objectLink(KIND_OF[group], each)}>${each}</a></li>`)}</ul></section>`)}
        ${found.events?.length ? html`<${Events} events=${found.events} />` : null}
        ${kind === "claim" ? html`<${History} events=${events} opened=${opened} />` : null}</div></div>`}
    ${found.lines.length === 0 && events.length ? html`<${History} events=${events} opened=${opened} />` : null}
    <p class="terminal muted">In a terminal: <code>kubectl dra explain ${kind === "workload" ? "" : `${kind} `}${name}${namespace ? ` -n ${namespace}` : ""}</code></p></div>`;
}
