// What has happened to claims since the page was opened.
const EVENTS_MAX = 100; // of one claim
const CLAIMS_MAX = 2_000;
const COLUMNS = ["STATE", "PODS", "WAITING", "LISTED", "DEVICES", "NODE", "FOR"];

const events = new Map();

export function record(at, table, before, after) {
  const key = (after ?? before)?.[0];
  if (key === undefined) return;
  const changes = [];
  if (!before) changes.push(["", "", "appeared"]);
  if (!after) changes.push(["", "", "was deleted"]);
  if (before && after) {
    for (const name of COLUMNS) {
      const index = table.at[name];
      if (before[index] !== after[index]) changes.push([name, before[index], after[index]]);
    }
  }
  if (!changes.length) return;
  const known = events.get(key) ?? [];
  known.unshift({ at, changes });
  known.length = Math.min(known.length, EVENTS_MAX);
  events.delete(key);
  events.set(key, known);
  if (events.size > CLAIMS_MAX) events.delete(events.keys().next().value);
}

export const historyOf = (key) => events.get(key) ?? [];
