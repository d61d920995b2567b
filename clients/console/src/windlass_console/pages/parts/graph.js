// A line graph by hand: one or two lines, the last value as text, the value under the pointer.

import { html, useState } from "../vendor/preact.js";
import { line, roundUp } from "../model/rates.js";
import { short } from "../model/figures.js";
import { t } from "../text/index.js";

/** @import { Point } from "../model/rates.js" */

/**
 * @param {{
 *   title: string,
 *   unit: string,
 *   points: Point[],
 *   lines: [string, string][],
 *   most?: number,
 * }} props `lines` are names of values with their titles
 */
export function Graph({ title, unit, points, lines, most }) {
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const values = points.flatMap((one) => lines.flatMap(([name]) => one.values[name] ?? []));
  const top = most ?? roundUp(Math.max(0, ...values));
  const paths = points.length > 1 ? lines.map(([name]) => line(points, name, top)) : []; // "" where nothing is known
  const shown = at === null ? points.at(-1) : points[at];
  const [from, until] = [points[0]?.time ?? 0, points.at(-1)?.time ?? 0];
  const read = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * (until - from);
    const nearest = points.reduce((best, one, index) => (Math.abs(one.time - time) < Math.abs(points[best].time - time) ? index : best), 0);
    setAt(points.length ? nearest : null);
  };
  const textOf = (/** @type {string} */ name) => {
    const value = shown?.values[name];
    return value === null || value === undefined ? "–" : `${short(value)} ${unit}`.trim();
  };
  const summary = lines.map(([name, label]) => `${label}: ${textOf(name)}`).join("; ");
  const hair = at === null || until === from ? null : (100 * (points[at].time - from)) / (until - from);
  return html`<figure class="panel graph">
    <figcaption><span>${title}</span><b>${textOf(lines[0][0])}</b></figcaption>
    <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label=${`${title}. ${summary}`}
      onPointerMove=${read} onPointerLeave=${() => setAt(null)}>
      <path class="base" d="M0 100H100M0 0H100" />
      ${paths[0] && lines.length === 1 && html`<path class="area0" d=${`${paths[0]}V100H0Z`} />`}
      ${paths.map((path, index) => path && html`<path key=${lines[index][0]} class=${`line${index}`} d=${path} />`)}
      ${hair !== null && html`<path class="hair" d=${`M${hair} 0V100`} />`}
    </svg>
    <div class="foot">${lines.length > 1 ? html`<span class="keys">${lines.map(([name, label], index) => html`<span
      key=${name}><i class=${index ? "second" : ""} aria-hidden="true"></i>${label} ${textOf(name)}</span>`)}
      </span>` : html`<span></span>`}
      <span>${until > from ? `0–${short(top)} · ${t("graph.last", { seconds: Math.round(until - from) })}` : t("graph.gathering")}</span></div>
  </figure>`;
}
