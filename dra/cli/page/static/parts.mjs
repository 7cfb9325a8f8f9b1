// Small parts that every view uses.
import { html, useEffect, useState } from "./lib.mjs";
import { NONE, look } from "./words.mjs";

export const State = ({ value, grade, label }) => {
  const [glyph, tone] = look(value, grade);
  return html`<span class="state ${tone}"><span class="glyph" aria-hidden="true">${glyph}</span>${label ?? value}</span>`;
};

export const Dim = ({ value }) =>
  value === NONE || value === "" ? html`<span class="none">${value === "" ? "" : "–"}</span>` : value;

export function Copy({ text }) {
  const [done, set] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => set(false), 1_500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = async (event) => {
    event.stopPropagation();
    await navigator.clipboard.writeText(text);
    set(true);
  };
  return html`<span class="command"><code>${text}</code
    ><button type="button" onClick=${copy} aria-label="Copy the command">${done ? "copied" : "copy"}</button></span>`;
}

export const Empty = ({ title, children }) =>
  html`<div class="empty"><p class="empty-title">${title}</p><p>${children}</p></div>`;

export const Loading = () => html`<div class="empty" role="status"><p>Reading the cluster…</p></div>`;

// A bar of parts: [[label, count, tone, glyph], …]. The numbers stand beside it, so it is only decoration.
export const Bar = ({ parts, total }) => html`<div class="bar" aria-hidden="true">
  ${parts.filter(([, count]) => count > 0).map(
    ([label, count, tone]) => html`<i class=${tone} key=${label} style=${{ flexGrow: count }}></i>`,
  )}
  ${total === 0 ? html`<i class="nothing" style=${{ flexGrow: 1 }}></i>` : null}
</div>`;
