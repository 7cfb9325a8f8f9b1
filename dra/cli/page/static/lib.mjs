// The libraries of the page, in one place: preact, its hooks, and htm bound to preact.
import { h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.mjs";

export { render };
export { useEffect, useMemo, useRef, useState } from "./vendor/hooks.mjs";
export const html = htm.bind(h);
