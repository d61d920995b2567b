// A long list that draws only the rows in sight: the rows have one height, and the list scrolls by itself.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";

const SPARE = 6; // rows beyond each edge, so that the Tab key finds the next one

/**
 * @template T
 * @param {{
 *   rows: T[],
 *   height: number,
 *   draw: (row: T, index: number) => unknown,
 *   keyOf: (row: T) => string,
 *   label: string,
 *   head: unknown,
 *   class?: string,
 * }} props
 */
export function VirtualTable({ rows, height, draw, keyOf, label, head, class: kind = "" }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [seen, setSeen] = useState({ first: 0, count: 30 });
  const measure = () => {
    const own = box.current;
    if (!own) return;
    const first = Math.max(0, Math.floor(own.scrollTop / height) - SPARE);
    const count = Math.ceil(own.clientHeight / height) + 2 * SPARE;
    setSeen((before) => (before.first === first && before.count === count ? before : { first, count }));
  };
  useLayoutEffect(measure, [rows.length, height]);
  useEffect(() => {
    const watcher = new ResizeObserver(measure);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [height]);
  const shown = rows.slice(seen.first, seen.first + seen.count);
  return html`<div class=${`rows ${kind}`} role="table" aria-label=${label} aria-rowcount=${rows.length + 1}>
    <div class="scroll" ref=${box} onScroll=${measure} onKeyDown=${arrows} role="presentation">
      ${head}
      <div class="all" role="rowgroup" style=${{ height: `${rows.length * height}px` }}>
        ${shown.map(
          (row, at) => html`<div
            key=${keyOf(row)}
            class="line"
            role="row"
            aria-rowindex=${seen.first + at + 2}
            style=${{ height: `${height}px`, transform: `translateY(${(seen.first + at) * height}px)` }}
          >${draw(row, seen.first + at)}</div>`,
        )}
      </div>
    </div>
  </div>`;
}

/** The arrow keys go from row to row, as the Tab key does. @param {KeyboardEvent} event */
function arrows(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const line = event.target instanceof Element ? event.target.closest(".line") : null;
  if (!step || !line?.parentElement) return;
  const index = Number(line.getAttribute("aria-rowindex")) + step;
  const next = line.parentElement.querySelector(`[aria-rowindex="${index}"] a`);
  if (!(next instanceof HTMLElement)) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}
