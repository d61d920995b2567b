// A plan as it is read: the cards, one card's memory as a bar, why, and what else would do.

import { html } from "../vendor/preact.js";
import { figure, gib, short, thousands } from "../model/figures.js";
import { Wide } from "./controls.js";
import { Icon } from "./icons.js";
import { t } from "../text/index.js";

/** @import { CardBudget, Plan, Preview } from "../../../../types/api" */

const WARNING = "warning: "; // begins a reason that a reader must not miss
const ADVICE = /^engine\.(\w+) (\S+): /; // an advice that is a value of one field of spec.engine
const MOST_SQUARES = 32;

/** @param {{ plan: Plan }} props */
function Headline({ plan }) {
  const cards = plan.gpus ? `${plan.gpus} × ${plan.gpuType ?? "GPU"}` : t("plan.cpu");
  /** @type {[string, string | number | undefined | null | false][]} */
  const facts = [
    [t("plan.split"), plan.gpus ? [`TP ${plan.tp ?? 1}`, (plan.pp ?? 1) > 1 && `PP ${plan.pp}`].filter(Boolean).join(" · ") : false],
    [t("plan.nodes"), (plan.nodes ?? 1) > 1 && `${plan.nodes}${plan.group ? ` (${plan.group})` : ""}`],
    [t("plan.context"), plan.maxModelLen && thousands(plan.maxModelLen)],
    [t("plan.dtype"), plan.dtype],
    [t("plan.quantization"), plan.quantization],
  ];
  return html`<div class="headline">
    <p class="cards-line"><${Icon} name="capacity" /><b>${cards}</b></p>
    <dl>${facts.map(([name, value]) => value && html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  </div>`;
}

/** One card's memory: weights, cache, the engine, and what is free. @param {{ card: CardBudget }} props */
function MemoryBar({ card }) {
  const [weights, kv, engine, have] = [card.weightsGib, card.kvCacheGib, card.overheadGib, card.haveGib].map(figure);
  const needed = figure(card.requiredGib) || weights + kv + engine;
  const rest = Math.max(0, needed - weights - kv - engine); // what utilization keeps back
  const whole = Math.max(have, needed) || 1;
  const free = Math.max(0, have - needed);
  /** @type {[string, string, number][]} */
  const parts = [
    ["weights", t("plan.weights"), weights],
    ["kv", t("plan.kv"), kv],
    ["engine", t("plan.engine"), engine],
    ["reserve", t("plan.reserve"), rest],
    ["free", t("plan.free"), free],
  ];
  const shown = parts.filter(([, , size]) => size >= 0.005);
  const over = have > 0 && needed > have;
  return html`<figure class="memory">
    <figcaption>${have ? t("plan.each_of", { needed: gib(needed), have: gib(have) }) : t("plan.each", { needed: gib(needed) })}</figcaption>
    <div class=${over ? "bar over" : "bar"} aria-hidden="true">
      ${shown.map(([id, , size]) => html`<i key=${id} class=${id} style=${{ width: `${(100 * size) / whole}%` }}></i>`)}
    </div>
    <ul>${shown.map(([id, name, size]) => html`<li key=${id}><i class=${id} aria-hidden="true"></i>${name} <b>
      ${gib(size)}</b></li>`)}</ul>
  </figure>`;
}

/** @param {{ title: string, lines?: string[], open?: boolean, onUse?: (field: string, value: string) => void }} props */
function Lines({ title, lines = [], open = false, onUse }) {
  if (!lines.length) return null;
  return html`<details class="lines" open=${open}><summary>${title} <small>${lines.length}</small></summary>
    <ul>${lines.map((line) => {
      const found = onUse && ADVICE.exec(line);
      return html`<li key=${line}><span>${line}</span>
        ${found && html`<button type="button" class="quiet" aria-label=${`${t("plan.use")}: ${found[1]} ${found[2]}`}
          onClick=${() => onUse?.(found[1], found[2])}>${t("plan.use")}</button>`}
      </li>`;
    })}</ul>
  </details>`;
}

/** @param {string} line */
const warns = (line) => line.startsWith(WARNING);

/** The figures that the engine has given: some engines give no size of their weights. @param {NonNullable<Plan["measured"]>} seen */
const measured = ({ weightsGib, kvCacheGib, kvTokens }) =>
  [
    weightsGib && t("plan.measured_weights", { gib: weightsGib }),
    kvCacheGib && t("plan.measured_kv", { gib: kvCacheGib }),
    kvTokens && t("plan.measured_tokens", { tokens: thousands(kvTokens) }),
  ]
    .filter(Boolean)
    .join(" · ");

/** @param {{ plan: Plan, onUse?: (field: string, value: string) => void, open?: boolean }} props */
export const PlanView = ({ plan, onUse, open = false }) => html`
  <${Headline} plan=${plan} />
  ${plan.perGPU && figure(plan.perGPU.weightsGib) + figure(plan.perGPU.requiredGib) > 0 && html`<${MemoryBar} card=${plan.perGPU} />`}
  ${plan.measured && measured(plan.measured) && html`<p class="hint">
    ${t("plan.measured", { figures: measured(plan.measured) })}</p>`}
  ${(plan.because ?? []).filter(warns).map((line) => html`<p key=${line} class="problem">${line}</p>`)}
  <${Lines} title=${t("plan.because")} lines=${plan.because?.filter((line) => !warns(line))} open=${open} />
  <${Lines} title=${t("plan.alternatives")} lines=${plan.alternatives} />
  <${Lines} title=${t("plan.advice")} lines=${plan.advice} onUse=${onUse} />
`;

/** The settings that the server starts with, and where each comes from. @param {{ rows: Preview["settings"] }} props */
export function SettingsTable({ rows }) {
  if (!rows.length) return null;
  return html`<details class="lines"><summary>${t("plan.settings")} <small>${rows.length}</small></summary>
    <${Wide} label=${t("plan.settings")}><table><thead><tr><th>${t("plan.setting")}</th><th>${t("plan.value")}</th><th>
      ${t("plan.from")}</th></tr></thead>
      <tbody>${rows.map((one) => html`<tr key=${one.setting}><td>${one.setting}</td><td>${one.value}</td><td>
        ${one.from}</td></tr>`)}</tbody>
    </table></${Wide}>
  </details>`;
}

/** How fast it would be, or why that is not known. @param {{ prediction: any }} props */
export function Prediction({ prediction }) {
  if (!prediction) return null;
  if (!prediction.loads) return html`<p class="hint">${prediction.note}</p>`;
  return html`<details class="lines"><summary>${t("plan.speed")}</summary>
    <${Wide} label=${t("plan.speed")}><table><thead><tr><th>${t("plan.at_once")}</th><th class="number">${t("plan.ttft")}</th><th
      class="number">${t("plan.per_token")}</th><th class="number">${t("plan.rate")}</th></tr></thead>
      <tbody>${prediction.loads.map((/** @type {any} */ one) => html`<tr key=${one.requestsAtOnce}><td>
        ${one.requestsAtOnce}</td><td class="number">${short(one.ttftMs)} ms</td><td class="number">
        ${short(one.msPerToken)} ms</td><td class="number">${short(one.requestsPerSecond)}/s</td></tr>`)}</tbody>
    </table></${Wide}>
    <p class="hint">${prediction.note}</p>
  </details>`;
}

/** The nodes that offer cards now: a square for each card, full where it is taken. @param {{ gpus: Preview["gpus"] }} props */
export const Offered = ({ gpus }) =>
  html`<details class="lines"><summary>${t("plan.offered")} <small>${gpus.length}</small></summary>
    ${gpus.length ? html`<ul>${gpus.map((one) => html`<li key=${one.node + one.product} class="offer"><span><b>
      ${one.node}</b> ${one.product || "GPU"}</span>${one.free === null
        ? html`<span class="faint">${t("plan.free_unknown", { all: one.allocatable })}</span>`
        : html`<${Squares} allocatable=${one.allocatable} free=${one.free} />
      <span class="faint">${t("plan.free_for_it", { free: one.free, all: one.allocatable })}</span>`}</li>`)}
      </ul>` : html`<p class="hint">${t("plan.no_gpus")}</p>`}
  </details>`;

/** @param {{ allocatable: number, free: number }} props */
export const Squares = ({ allocatable, free }) =>
  html`<span class="squares" aria-hidden="true">
    ${Array.from({ length: Math.min(allocatable, MOST_SQUARES) }, (_, index) => html`<i key=${index}
    class=${index < allocatable - free ? "taken" : ""}></i>`)}</span>`;
