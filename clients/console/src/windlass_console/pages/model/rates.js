// Graphs from the engines' totals: rates between two readings, kept while the page is open. Pure.

/** @import { Counters, Metrics } from "../../../../types/api" */

/**
 * @typedef {object} Point
 * @property {number} time seconds
 * @property {Record<string, number | null>} values
 */

const KEPT_POINTS = 360;

/** @typedef {keyof Omit<Counters, "problem" | "ttftBuckets">} Figure */

/**
 * The sum over the pods that have the figure; null where none has.
 * @param {Metrics} metrics
 * @param {Figure} figure
 */
function total(metrics, figure) {
  const seen = Object.values(metrics.pods).flatMap((pod) => (typeof pod[figure] === "number" ? [pod[figure]] : []));
  return seen.length ? seen.reduce((sum, one) => sum + one, 0) : null;
}

/** @param {Metrics} metrics */
function meanKv(metrics) {
  const seen = Object.values(metrics.pods).flatMap((pod) => (typeof pod.kvUse === "number" ? [pod.kvUse] : []));
  return seen.length ? (100 * seen.reduce((sum, one) => sum + one, 0)) / seen.length : null;
}

/**
 * How much a total grew between two readings, pod by pod: a pod that began anew counts from its beginning.
 * @param {Metrics} before
 * @param {Metrics} now
 * @param {Figure} figure
 * @returns {number | null}
 */
function growth(before, now, figure) {
  let sum = 0;
  let seen = false;
  for (const [pod, counters] of Object.entries(now.pods)) {
    const value = counters[figure];
    if (typeof value !== "number") continue;
    seen = true;
    const old = before.pods[pod]?.[figure];
    sum += typeof old === "number" && old <= value ? value - old : typeof old === "number" ? value : 0;
  }
  return seen ? sum : null;
}

/**
 * The time below which a share of the first tokens came between two readings: the edge of the bucket that it falls into.
 * @param {Metrics} before
 * @param {Metrics} now
 * @param {number} part of 1
 * @returns {number | null} seconds; null where nothing came, or it lies above the last edge
 */
function firstTokenWithin(before, now, part) {
  /** @type {Map<number, number>} */
  const grown = new Map();
  for (const [pod, counters] of Object.entries(now.pods)) {
    const earlier = before.pods[pod];
    if (!earlier) continue; // as growth() counts: from a pod's second reading on
    const old = new Map(earlier.ttftBuckets ?? []);
    for (const [edge, count] of counters.ttftBuckets ?? []) {
      const was = old.get(edge) ?? 0;
      grown.set(edge, (grown.get(edge) ?? 0) + (was <= count ? count - was : count));
    }
  }
  const all = growth(before, now, "ttftCount");
  if (!all) return null;
  const edges = [...grown].sort(([a], [b]) => a - b);
  return edges.find(([, count]) => count >= part * all)?.[0] ?? null;
}

/** @param {number | null} part
 * @param {number | null} whole */
const share = (part, whole) => (part === null || !whole ? null : part / whole);

/**
 * One point of every graph.
 * @param {Metrics} before
 * @param {Metrics} now
 * @returns {Point}
 */
export function point(before, now) {
  const seconds = Math.max(0.001, now.time - before.time);
  const grown = (/** @type {Figure} */ figure) => growth(before, now, figure);
  const rate = (/** @type {Figure} */ figure) => share(grown(figure), seconds);
  const perThousand = (/** @type {number | null} */ value) => (value === null ? null : 1000 * value);
  const percent = (/** @type {number | null} */ value) => (value === null ? null : 100 * value);
  return {
    time: now.time,
    values: {
      running: total(now, "running"),
      waiting: total(now, "waiting"),
      requests: rate("requests"),
      generated: rate("generationTokens"),
      prompt: rate("promptTokens"),
      ttft: perThousand(share(grown("ttftSum"), grown("ttftCount"))),
      ttft95: perThousand(firstTokenWithin(before, now, 0.95)),
      itl: perThousand(share(grown("itlSum"), grown("itlCount"))),
      kv: meanKv(now),
      prefix: percent(share(grown("prefixHits"), grown("prefixQueries"))),
      acceptance: percent(share(grown("accepted"), grown("drafted"))),
    },
  };
}

/**
 * @param {Point[]} points
 * @param {Point} next
 */
export const added = (points, next) => [...points, next].slice(-KEPT_POINTS);

/**
 * The path of a line in a box of 100 by 100; a gap where nothing is known.
 * @param {Point[]} points
 * @param {string} name
 * @param {number} most
 */
export function line(points, name, most) {
  const [from, until] = [points[0]?.time ?? 0, points.at(-1)?.time ?? 1];
  let gap = true;
  return points
    .flatMap((one) => {
      const value = one.values[name];
      if (value === null || value === undefined) {
        gap = true;
        return [];
      }
      const x = (100 * (one.time - from)) / Math.max(0.001, until - from);
      const y = 100 - (100 * value) / most;
      const step = `${gap ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`;
      gap = false;
      return [step];
    })
    .join("");
}

/** A round figure above the largest value. @param {number} value */
export function roundUp(value) {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 2.5, 5, 10].find((step) => step * size >= value) ?? 10) * size;
}
