// How figures, spans and ages are written. Pure.

const UNITS = /** @type {const} */ ([
  [86400, "d"],
  [3600, "h"],
  [60, "m"],
]);

/**
 * How long a span is, in its two largest units, as kubectl writes it.
 * @param {number} seconds
 */
export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [size, unit] of UNITS) {
    if (left < size) continue;
    parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  if (parts.length < 2 && (left || !parts.length)) parts.push(`${left}s`);
  return parts.slice(0, 2).join("");
}

/**
 * @param {string | undefined | null} instant
 * @param {number} now milliseconds
 */
export function age(instant, now) {
  const then = Date.parse(instant ?? "");
  return Number.isNaN(then) ? "–" : span((now - then) / 1000);
}

/** @param {string | number | undefined | null} text figures in GiB are text in the status */
export const figure = (text) => Number.parseFloat(String(text ?? "")) || 0;

/** @param {number} gib */
export const gib = (gib) => `${gib >= 100 ? gib.toFixed(0) : gib.toFixed(gib >= 10 ? 1 : 2)} GiB`;

/** @param {number} count */
export const thousands = (count) => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** @param {number} value */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  if (value >= 10000) return `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k`;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}
