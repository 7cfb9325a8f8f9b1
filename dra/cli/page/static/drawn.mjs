// A view that the server draws, as a tree of [element, attributes, ...children].
import { html, useEffect, useState } from "./lib.mjs";
import { getJson } from "./session.mjs";

const draw = (part) => (part.map ? html`<${part[0]} ...${part[1]}>${part.slice(2).map(draw)}<//>` : part);

export function Drawn({ path }) {
  const [tree, set] = useState("…");
  useEffect(() => {
    const read = () => getJson(path).then(set, ({ message }) => set(["p", { role: "alert" }, message]));
    read();
    const timer = setInterval(read, 10_000);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="drawn">${draw(tree)}</div>`;
}
