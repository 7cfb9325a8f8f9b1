// The frame of the page: navigation, the state of the stream, keys, and the view that the address names.
import { Drawn } from "./drawn.mjs";
import { html, render, useEffect, useState } from "./lib.mjs";
import { ListView, UsageView } from "./lists.mjs";
import { Nodes } from "./nodes.mjs";
import { ObjectView } from "./object.mjs";
import { Overview, sections } from "./overview.mjs";
import { Empty } from "./parts.mjs";
import { Problems } from "./problems.mjs";
import { link, useRoute } from "./route.mjs";
import { isSignedIn, namespace, signOut, signsIn, takeKey } from "./session.mjs";
import { SignIn } from "./signin.mjs";
import { deniedView, restart, status, useView } from "./store.mjs";
import { Waiting } from "./waiting.mjs";
import { clock, number } from "./words.mjs";

const list = (title, view) => [title, (route) => html`<${ListView} key=${view} view=${view} route=${route} />`];
const VIEWS = {
  overview: ["Overview", () => html`<${Overview} />`],
  workloads: list("Workloads", "workloads"),
  claims: list("Claims", "claims"),
  waiting: ["Waiting", (route) => html`<${Waiting} route=${route} />`],
  nodes: ["Nodes", (route) => html`<${Nodes} route=${route} />`],
  devices: list("Devices", "devices"),
  reservations: list("Reservations", "reservations"),
  migrations: list("Migrations", "migrations"),
  rounds: list("Rounds", "rounds"),
  usage: ["Usage", (route) => html`<${UsageView} route=${route} />`],
  idle: ["Idle", ({ query }) => html`<${Drawn} key=${query} path="api/idle?${query}" />`],
  problems: ["Problems", (route) => html`<${Problems} route=${route} />`],
};
const OBJECTS = { workload: "workloads", claim: "claims", pod: "workloads", node: "nodes", device: "devices", reservation: "reservations", migration: "migrations" };

const STATUS = {
  live: ["●", "green", "live"], connecting: ["○", "grey", "connecting"], reconnecting: ["▲", "yellow", "reconnecting"],
  paused: ["○", "grey", "paused"], refused: ["✖", "red", "not allowed"],
};

const Status = ({ found }) => {
  const [glyph, tone, word] = STATUS[status.state];
  const stale = status.state === "live" && Object.keys(found.stale ?? {}).length;
  const text = stale ? `not live: ${Object.keys(found.stale).join(", ")}` : word;
  return html`<p class="status state ${stale ? "yellow" : tone}" role="status" title=${status.text}><span class="glyph" aria-hidden="true">${stale ? "▲" : glyph}</span>
    ${text}<span class="muted"> since ${clock(status.since)}</span></p>`;
};

const total = (counts, ...names) => names.reduce((sum, name) => sum + Number(counts?.[name] ?? 0), 0);

const Theme = () => {
  const [theme, set] = useState(() => localStorage.getItem("dra-reserve-theme") ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("dra-reserve-theme", theme);
  }, [theme]);
  const next = { auto: "light", light: "dark", dark: "auto" }[theme];
  return html`<button type="button" class="theme" onClick=${() => set(next)} aria-label="Colours: ${theme}; switch to ${next}">${{ auto: "◑ auto", light: "○ light", dark: "● dark" }[theme]}</button>`;
};

const Help = ({ close }) => html`<dialog open class="help" aria-label="Keys"><h2>Keys</h2><dl>
  ${[["/", "filter"], ["↑ ↓ or j k", "rows"], ["Enter", "open a row"], ["Esc", "back"], ["g, then a letter", Object.entries(GO).map(([key, view]) => `${key} ${view}`).join(", ")], ["?", "this"]]
    .map(([key, text]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${text}</dd></div>`)}</dl>
  <button type="button" class="chip" onClick=${close}>Close</button></dialog>`;

const STEP = { j: 1, k: -1 };
const GO = { o: "overview", w: "workloads", c: "claims", p: "problems", n: "nodes", d: "devices", u: "usage", r: "reservations", m: "migrations", t: "rounds", q: "waiting", i: "idle" };

function useKeys(setHelp) {
  useEffect(() => {
    let going = false;
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target.closest?.("input");
      if (event.key === "Escape") {
        setHelp(false);
        if (typing) typing.blur();
        else if (location.hash.split("/").length > 2) history.back();
      } else if (!typing) {
        if (going && GO[event.key]) location.hash = link(GO[event.key]);
        else if (event.key === "/") {
          event.preventDefault();
          document.getElementById("filter")?.focus();
        } else if (event.key === "?") setHelp((shown) => !shown);
        else if (event.key in STEP && !event.target.closest("table")) {
          const entries = [...document.querySelectorAll("main .object, .node")];
          entries[Math.max(0, entries.indexOf(document.activeElement) + STEP[event.key])]?.focus();
        }
        going = event.key === "g";
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function Page() {
  const route = useRoute();
  const overview = useView("overview");
  const [help, setHelp] = useState(false);
  useKeys(setHelp);
  const found = overview ? sections(overview) : {};
  const current = OBJECTS[route.view] ?? route.view;
  const title = VIEWS[route.view]?.[0] ?? `${route.view} ${route.parts.join("/")}`;
  useEffect(() => { document.title = `${title} · dra-reserve`; }, [title]);
  const badges = { problems: total(found.problems, "error", "leak", "warning"), waiting: Number(found.cluster?.waiting ?? 0) };
  const absent = { ...found.absent, rounds: found.absent?.migrations };
  const hidden = (view) => (absent[view] ?? found.denied?.[view]) !== undefined && current !== view;
  const why = found.denied?.[current] ?? deniedView(current);
  if (signsIn && (!isSignedIn() || status.state === "refused")) {
    return html`<main id="content" class="alone"><${SignIn} why=${isSignedIn() ? status.text : ""} onDone=${() => { setHelp(false); restart(); }} /></main>`;
  }
  const shown = why !== undefined ? html`<header class="head"><h1>${VIEWS[current]?.[0] ?? title}</h1></header><${Empty} title="Not shown">${why}<//>` : VIEWS[route.view]?.[1](route)
    ?? (route.view in OBJECTS && route.parts.length ? html`<${ObjectView} key=${location.hash} kind=${route.view} parts=${route.parts} />`
      : html`<${Empty} title="There is no such view"><a href=${link("overview")}>Go to the overview</a><//>`);
  return html`<a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>Skip to the content</a>
    <nav aria-label="Views"><p class="brand"><span class="mark" aria-hidden="true"><i class="green"></i><i class="blue"></i><i class="blue"></i><i class="none"></i></span>dra-reserve</p>
      <ul>${Object.entries(VIEWS).filter(([view]) => !hidden(view)).map(([view, [name]]) => html`<li key=${view}><a href=${link(view)} aria-current=${view === current ? "page" : undefined}>${name}
        ${badges[view] ? html`<span class="badge ${view === "problems" ? "red" : "yellow"}">${number(badges[view])}</span>` : null}</a></li>`)}</ul>
      <div class="foot"><${Status} found=${found} />${signsIn ? html`<p class="muted">${namespace() ? `namespace ${namespace()} ` : ""}<button type="button" class="theme" onClick=${signOut}>Sign out</button></p>` : null}<p><${Theme} /> <button type="button" class="theme" onClick=${() => setHelp(true)}>? keys</button></p></div></nav>
    <main id="content" tabindex="-1">${status.state === "refused"
      ? html`<${Empty} title="This tab has no key">${status.text}<//>` : shown}</main>
    ${help ? html`<${Help} close=${() => setHelp(false)} />` : null}`;
}

takeKey();
restart();
const root = document.getElementById("page");
root.textContent = "";
render(html`<${Page} />`, root);
