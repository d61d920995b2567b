// Graphs from the pods' own metrics, through the API server with the user's right; nothing else keeps them.

import { html, useEffect, useState } from "../../vendor/preact.js";
import { api } from "../../model/api.js";
import { added, point } from "../../model/rates.js";
import { Graph } from "../../parts/graph.js";
import { Empty, Loading, Trouble } from "../../parts/controls.js";
import { t } from "../../text/index.js";

/** @import { Metrics } from "../../../../../types/api" */
/** @import { Point } from "../../model/rates.js" */

const READ_MS = 2000;

/** What was read of each service, for as long as the page is open. @type {Map<string, { points: Point[], last: Metrics }>} */
const histories = new Map();

/**
 * @param {string} namespace
 * @param {string} name
 */
function useHistory(namespace, name) {
  const key = `${namespace}/${name}`;
  const [state, setState] = useState({
    points: histories.get(key)?.points ?? [],
    last: /** @type {Metrics | null} */ (null),
    error: /** @type {unknown} */ (null),
  });
  useEffect(() => {
    let mine = true;
    /** @type {ReturnType<typeof setTimeout>} */
    let timer;
    const readOnce = async () => {
      try {
        const now = document.visibilityState === "visible" ? await api.metrics(namespace, name) : null;
        if (!mine) return;
        if (now) {
          const before = histories.get(key);
          const points = before ? added(before.points, point(before.last, now)) : [];
          histories.set(key, { points, last: now });
          setState({ points, last: now, error: null });
        }
      } catch (error) {
        if (mine) setState((before) => ({ ...before, error }));
      }
      if (mine) timer = setTimeout(readOnce, READ_MS);
    };
    readOnce();
    return () => {
      mine = false;
      clearTimeout(timer);
    };
  }, [key]);
  return state;
}

/** @param {{ namespace: string, name: string }} props */
export function Graphs({ namespace, name }) {
  const { points, last, error } = useHistory(namespace, name);
  if (error && !points.length) return html`<${Trouble} error=${error} />`;
  if (!last && !points.length) return html`<${Loading} />`;
  const pods = Object.entries(last?.pods ?? {});
  if (!pods.length && !points.length) return html`<${Empty} title=${t("graph.no_pods")} />`;
  const problems = pods.flatMap(([pod, counters]) => (counters.problem ? [`${pod}: ${counters.problem}`] : []));
  const has = (/** @type {string} */ figure) => points.some((one) => one.values[figure] !== null);
  return html`
    ${error && html`<${Trouble} error=${error} />`}
    ${problems.length > 0 && html`<${Trouble} error=${new Error(problems.join("; "))} />`}
    <div class="graphs">
      <${Graph} title=${t("graph.requests")} unit="" points=${points} lines=${[["running", t("graph.running")], ["waiting", t("graph.waiting")]]} />
      <${Graph} title=${t("graph.tokens")} unit="tok/s" points=${points} lines=${[["generated", t("graph.generated")], ["prompt", t("graph.prompt")]]} />
      <${Graph} title=${t("graph.ttft")} unit="ms" points=${points} lines=${[["ttft", t("graph.mean")], ["ttft95", t("graph.within")]]} />
      <${Graph} title=${t("graph.kv")} unit="%" points=${points} lines=${[["kv", t("graph.kv")]]} most=${100} />
      <${Graph} title=${t("graph.rate")} unit="/s" points=${points} lines=${[["requests", t("graph.rate")]]} />
      ${has("itl") && html`<${Graph}
        title=${t("graph.itl")} unit="ms" points=${points} lines=${[["itl", t("graph.itl")]]} />`}
      ${has("acceptance") && html`<${Graph}
        title=${t("graph.acceptance")} unit="%" points=${points} lines=${[["acceptance", t("graph.acceptance")]]} most=${100} />`}
      ${has("prefix") && html`<${Graph}
        title=${t("graph.prefix")} unit="%" points=${points} lines=${[["prefix", t("graph.prefix")]]} most=${100} />`}
    </div>
    <p class="hint">${t("graph.source")}</p>
  `;
}
