// The address of what is shown: #/VIEW/PART/…?q=filter&sort=COLUMN. A link to it shows the same again.
import { useEffect, useState } from "./lib.mjs";

export function parseRoute(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { view: parts[0] ?? "overview", parts: parts.slice(1), query: new URLSearchParams(query ?? "") };
}

export function link(view, parts = [], query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(kept).toString();
  return `#/${[view, ...parts].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// The link to an object, by the name that the commands print.
export function objectLink(kind, name) {
  const parts = name.split("/");
  if (kind === "workload" && parts[1] === "reservation") return link(parts[1], [parts[2]]);
  return link(kind, kind === "device" ? [name] : parts);
}

export function useRoute() {
  const [route, set] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const changed = () => set(parseRoute(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

// Changes the query without a new entry in the browser's history.
export function setQuery(route, changes) {
  const query = { ...Object.fromEntries(route.query), ...changes };
  history.replaceState(null, "", link(route.view, route.parts, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
