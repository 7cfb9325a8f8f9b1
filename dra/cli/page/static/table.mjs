// A table of any number of rows with a bounded DOM: only the rows in sight exist.
import { html, useEffect, useMemo, useRef, useState } from "./lib.mjs";

export const ROW_HEIGHT = 34;
const OVERSCAN = 8;

const collator = new Intl.Collator("en", { numeric: true });

// Returns a test of rows: words that must all occur, and COLUMN:word.
export function matcher(text, at) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const tests = words.map((word) => {
    const [, name, rest] = /^([\w-]+):(.+)$/.exec(word) ?? [];
    const index = name === undefined ? undefined : at[name.toUpperCase()];
    if (index === undefined) return (row) => row.some((cell, i) => i > 0 && cell.toLowerCase().includes(word));
    return (row) => row[index].toLowerCase().includes(rest);
  });
  return (row) => tests.every((test) => test(row));
}

export function sorted(rows, index, descending) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => sign * collator.compare(a[index], b[index]) || collator.compare(a[0], b[0]));
}

// Keeps the order of rows while the pointer is in the table.
function useFrozenOrder(rows, frozen) {
  const kept = useRef([]);
  return useMemo(() => {
    if (!frozen || kept.current.length === 0) {
      kept.current = rows.map((row) => row[0]);
      return rows;
    }
    const byKey = new Map(rows.map((row) => [row[0], row]));
    const same = kept.current.map((key) => byKey.get(key)).filter(Boolean);
    for (const row of same) byKey.delete(row[0]);
    const all = [...same, ...byKey.values()];
    kept.current = all.map((row) => row[0]);
    return all;
  }, [rows, frozen]);
}

export function useWindow(count, height) {
  const box = useRef(null);
  const [range, set] = useState({ from: 0, to: 40 });
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const from = Math.max(0, Math.floor(element.scrollTop / height) - OVERSCAN);
    const to = Math.ceil((element.scrollTop + element.clientHeight) / height) + OVERSCAN;
    set((before) => (before.from === from && before.to === to ? before : { from, to }));
  };
  useEffect(() => {
    if (!box.current) return undefined;
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [count > 0]);
  return { box, measure, from: Math.min(range.from, Math.max(0, count - 1)), to: Math.min(range.to, count) };
}

const FIXED = { "w-state": 132, "w-time": 60, "w-line": 220 };
const sum = (one, other) => one + other;

// The widths of columns in pixels: as wide as the longest text. Where there is no room, texts are cut first, names last.
function widthsOf(columns, longest, room) {
  const widths = columns.map((each, index) => FIXED[each.width] ?? 14 + 8.6 * Math.min(longest[index], 64));
  for (const [isWanted, least] of [[(each) => each.text, 90], [(each) => !each.text && !each.width, 110]]) {
    for (let most = 540; most > least && widths.reduce(sum) > room; most -= 8) {
      widths.forEach((width, index) => { if (isWanted(columns[index])) widths[index] = Math.min(width, most); });
    }
  }
  return widths;
}

export function Table({ label, columns, rows, sort, descending, onSort, onOpen }) {
  const [hovered, setHovered] = useState(false);
  const [active, setActive] = useState(0);
  const [asked, setAsked] = useState(0);
  const inOrder = useMemo(() => {
    const column = columns.find((each) => each.name === sort) ?? columns[0];
    return sorted(rows, column.index, descending);
  }, [rows, sort, descending]);
  const shown = useFrozenOrder(inOrder, hovered && asked === `${sort}${descending}`);
  useEffect(() => setAsked(`${sort}${descending}`), [sort, descending]);
  const { box, measure, from, to } = useWindow(shown.length, ROW_HEIGHT);
  const longest = useMemo(() => columns.map((each) => rows.reduce((most, row) => Math.max(most, row[each.index].length), 2 + (each.label ?? each.name).length)), [rows, columns]);
  const widths = widthsOf(columns, longest, (box.current?.clientWidth ?? 1_000) - 60);

  const move = (next) => {
    const index = Math.max(0, Math.min(shown.length - 1, next));
    const element = box.current;
    setActive(index);
    const top = index * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else element.scrollTop = Math.max(element.scrollTop, top + 2 * ROW_HEIGHT - element.clientHeight);
    measure();
    requestAnimationFrame(() => element.querySelector(`[data-index="${index}"]`)?.focus({ preventScroll: true }));
  };
  const onKey = (event) => {
    if (event.target.closest("button, a") || event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.floor(box.current.clientHeight / ROW_HEIGHT) - 2;
    const steps = {
      ArrowDown: active + 1, ArrowUp: active - 1, j: active + 1, k: active - 1,
      PageDown: active + page, PageUp: active - page, Home: 0, End: shown.length - 1,
    };
    if (event.key in steps) {
      event.preventDefault();
      move(steps[event.key]);
    } else if (event.key === "Enter" && shown[active]) {
      onOpen(shown[active]);
    }
  };
  const at = Math.min(active, shown.length - 1);
  return html`<div class="scroll" ref=${box} onScroll=${measure} onKeyDown=${onKey} tabindex=${at >= from && at < to ? -1 : 0}
      role="region" aria-label=${label}
      onPointerEnter=${() => setHovered(true)} onPointerLeave=${() => setHovered(false)}>
    <table aria-label=${label} aria-rowcount=${shown.length + 1} style=${{ minWidth: `${widths.reduce(sum)}px` }}>
      <colgroup>${columns.map((each, index) => html`<col key=${each.name} style=${each.rest ? {} : { width: `${widths[index]}px` }} />`)}</colgroup>
      <thead><tr aria-rowindex="1">${columns.map((each) => html`<th key=${each.name} scope="col" class=${each.align ?? ""}
          aria-sort=${sort === each.name ? (descending ? "descending" : "ascending") : "none"}>
        <button type="button" aria-label=${each.Head && each.label} onClick=${() => onSort(each.name)}>${each.Head ? html`<${each.Head} span=${each.span} />` : each.label ?? each.name}<span class="arrow" aria-hidden="true">
          ${sort === each.name ? (descending ? "↓" : "↑") : ""}</span></button></th>`)}</tr></thead>
      <tbody>
        ${from > 0 ? html`<tr key="above" aria-hidden="true" class="spacer" style=${{ height: `${from * ROW_HEIGHT}px` }}></tr>` : null}
        ${shown.slice(from, to).map((row, offset) => {
          const index = from + offset;
          return html`<tr key=${row[0]} data-index=${index} data-key=${row[0]} aria-rowindex=${index + 2}
              tabindex=${index === at ? 0 : -1} onFocus=${() => setActive(index)} onClick=${() => onOpen(row)}>
            ${columns.map((each) => html`<td key=${each.name} class=${each.align ?? ""} title=${row[each.index]}>
              ${each.render ? each.render(row) : row[each.index]}</td>`)}</tr>`;
        })}
        ${to < shown.length ? html`<tr key="below" aria-hidden="true" class="spacer"
          style=${{ height: `${(shown.length - to) * ROW_HEIGHT}px` }}></tr>` : null}
      </tbody>
    </table></div>`;
}
