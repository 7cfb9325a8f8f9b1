// The rows of the views, kept up to date by one stream of patches, and the state of that stream.
import { useEffect, useState } from "./lib.mjs";
import { Refused, address, getJson, headers, isSignedIn, raiseForStatus } from "./session.mjs";
import { record } from "./history.mjs";

const ALWAYS = ["overview", "claims"];
const SILENCE = 40_000; // ms without even a ping, which the server sends each 15 s
const HIDDEN = 30_000; // ms in the background after which the stream is closed
const DELAY_MAX = 30_000;

const tables = new Map(); // view → {columns, at, rows, list, version}
const denied = new Map(); // view → the permission that is missing for it
const needed = new Map(ALWAYS.map((view) => [view, 1]));
const listeners = new Set();

export const status = { state: "connecting", since: new Date(), text: "" };

let lastId = "";
let running = null; // AbortController of the present stream
let delay = 1_000;
let changes = 0; // counts notifications

function notify() {
  changes += 1;
  for (const each of listeners) each();
}

function setStatus(state, text = "") {
  if (status.state === state && status.text === text) return;
  Object.assign(status, { state, text, since: new Date() });
  notify();
}

// Renders a component again when something changes, at most once a frame.
export function useChanges() {
  const [, bump] = useState(0);
  const rendered = changes;
  useEffect(() => {
    let frame = 0;
    const changed = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        bump((count) => count + 1);
      });
    };
    listeners.add(changed);
    if (changes !== rendered) changed(); // an effect runs after the first frame, which an answer may precede
    return () => {
      listeners.delete(changed);
      cancelAnimationFrame(frame);
    };
  }, []);
}

// Returns the table of a view; null until its rows are here.
export function useView(view) {
  useChanges();
  useEffect(() => {
    needed.set(view, (needed.get(view) ?? 0) + 1);
    if (!tables.has(view) && !denied.has(view)) restart();
    return () => {
      needed.set(view, needed.get(view) - 1);
    };
  }, [view]);
  return tables.get(view) ?? null;
}

export const deniedView = (view) => denied.get(view);

export function tableOf(view) {
  return tables.get(view) ?? null;
}

// The rows of a table as a list; the same list until a row changes.
export function listOf(table) {
  table.list ??= [...table.rows.values()];
  return table.list;
}

async function fetchRows(view) {
  let found;
  try {
    found = await getJson(`api/rows?view=${view}`);
  } catch (error) {
    if (error.status !== 403 || ALWAYS.includes(view)) throw error;
    denied.set(view, error.message); // the other views are shown all the same
    return "";
  }
  const at = Object.fromEntries(found.columns.map((name, index) => [name, index]));
  const rows = new Map(found.rows.map((row) => [row[0], row]));
  tables.set(view, { columns: found.columns, at, rows, ready: found.ready, version: 1, list: null });
  return found.id;
}

function apply(patches) {
  const now = new Date();
  for (const { view, set, gone } of patches) {
    const table = tables.get(view);
    if (!table) continue;
    for (const row of set) {
      if (view === "claims") record(now, table, table.rows.get(row[0]), row);
      table.rows.set(row[0], row);
    }
    for (const key of gone) {
      if (view === "claims") record(now, table, table.rows.get(key), null);
      table.rows.delete(key);
    }
    table.ready = true;
    table.version += 1;
    table.list = null;
  }
  notify();
}

function parse(block) {
  const event = { event: "", data: "", id: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (name in event) event[name] += value;
  }
  return event;
}

async function follow(views, signal, alive) {
  const response = await fetch(address(`api/events?views=${views.join(",")}`), {
    headers: headers({ "Last-Event-ID": lastId }), cache: "no-store", signal,
  });
  await raiseForStatus(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  setStatus("live");
  delay = 1_000;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the connection was closed");
    alive();
    buffer += value;
    const blocks = buffer.split("\n\n");
    buffer = blocks.pop();
    for (const { event, data, id } of blocks.map(parse)) {
      if (event === "reset") {
        tables.clear();
        denied.clear();
        lastId = "";
        return; // the rows are fetched again
      }
      if (event === "patch") apply(JSON.parse(data));
      if (id) lastId = id;
    }
  }
}

async function run(controller) {
  const { signal } = controller;
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => controller.abort("silent"), SILENCE);
  };
  try {
    for (;;) {
      const views = [...needed].filter(([, count]) => count > 0).map(([view]) => view);
      for (const view of tables.keys()) if (!views.includes(view)) tables.delete(view);
      const ids = await Promise.all(views.filter((view) => !tables.has(view) && !denied.has(view)).map(fetchRows));
      if (signal.aborted) return;
      lastId ||= ids.find((id) => id) ?? "";
      notify();
      alive();
      await follow(views.filter((view) => !denied.has(view)), signal, alive);
    }
  } catch (error) {
    if (controller !== running) return; // another stream has taken over
    if (error instanceof Refused) {
      setStatus("refused", error.message);
      return;
    }
    setStatus("reconnecting", String(error.message ?? error));
    setTimeout(() => controller === running && restart(), delay * (0.75 + Math.random() / 2));
    delay = Math.min(2 * delay, DELAY_MAX);
  } finally {
    clearTimeout(timer);
  }
}

// Opens the stream again, where the last one ended, with the views that are needed now.
export function restart() {
  if (!isSignedIn()) return;
  const before = running;
  running = new AbortController();
  before?.abort();
  queueMicrotask(((controller) => () => controller === running && run(controller))(running));
}

let hideTimer = 0;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hideTimer);
  if (document.hidden) {
    hideTimer = setTimeout(() => {
      const before = running;
      running = null;
      before?.abort();
      setStatus("paused");
    }, HIDDEN);
  } else if (status.state === "paused" || status.state === "reconnecting") {
    restart();
  }
});
