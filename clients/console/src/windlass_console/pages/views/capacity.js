// The nodes, their cards, who holds them, and what would fit on what is free.

import { html, useEffect } from "../vendor/preact.js";
import { api } from "../model/api.js";
import { to } from "../model/router.js";
import { gib, thousands } from "../model/figures.js";
import { Empty, Loading, Status, Trouble, useAnswer, Wide } from "../parts/controls.js";
import { Squares } from "../parts/plan.js";
import { t } from "../text/index.js";

/** @import { Capacity, Cards, Fit, Node } from "../../../../types/api" */

const READ_MS = 15_000;
const NAMED_MOST = 12; // nodes without GPUs that are named

export function CapacityPage() {
  const { value, error, again } = useAnswer(api.capacity, [], READ_MS);
  useEffect(() => {
    document.title = `${t("nav.capacity")} · Windlass`;
  });
  return html`<section class="page"><header class="top"><h1>${t("nav.capacity")}</h1></header>
    ${error && html`<${Trouble} error=${error} onRetry=${again} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`<${Body} capacity=${value} />`}
  </section>`;
}

/** @param {{ capacity: Capacity }} props */
function Body({ capacity }) {
  const { nodes, products, holdersKnown, fits } = capacity;
  const offering = nodes.filter((node) => node.cards.length);
  const others = nodes.filter((node) => !node.cards.length).map((node) => node.name);
  return html`
    ${!holdersKnown && html`<p class="hint">${t("capacity.unknown")}</p>`}
    ${products.length > 0 && html`<div class="tiles">${products.map((one) => html`<div
      key=${one.resource + one.product} class="tile"><small>
      ${one.product || one.resource}${one.memoryGiB ? ` · ${gib(one.memoryGiB)}` : ""}</small><b>
      ${t("plan.free_of", { free: one.free, all: one.allocatable })}</b><small>
      ${t("capacity.largest", { n: one.largestFree })}</small></div>`)}</div>`}
    ${offering.length ? html`<div class="nodes">${offering.map((node) => html`<${NodePanel}
      key=${node.name} node=${node} />`)}</div>` : html`<${Empty} title=${t("capacity.no_cards")} />`}
    ${fits.length > 0 && html`<${Fits} fits=${fits} />`}
    ${nodes.length > offering.length && html`<p class="hint">
      ${t("capacity.others", { n: others.length, names: others.slice(0, NAMED_MOST).join(", ") })}</p>`}
  `;
}

/** @param {{ node: Node }} props */
const NodePanel = ({ node }) => html`<section class="panel node stack">
  <h3>${node.name} ${node.why || !node.ready || !node.schedulable
    ? html`<${Status} state="bad" text=${node.why || t("state.not_ready")} />`
    : null}
    <small class="faint">${t("capacity.node", { cpu: node.cpu, memory: Math.round(node.memoryGiB ?? 0) })}</small></h3>
  ${node.cards.map((cards) => html`<${CardsOf} key=${cards.resource + cards.product} cards=${cards} />`)}
</section>`;

/** @param {{ cards: Cards }} props */
const CardsOf = ({ cards }) => html`<div class="stack">
  <p class="row"><${Squares} allocatable=${cards.allocatable} free=${cards.free} /><span>
    ${cards.product || cards.resource}</span><span class="faint">
    ${t("plan.free_of", { free: cards.free, all: cards.allocatable })}</span></p>
  ${cards.holders.length > 0 && html`<ul class="holders" aria-label=${t("capacity.holders")}>${cards.holders.map(
    (one) => html`<li key=${one.namespace + one.pod}><span class="wrap">${one.service ? html`<a
      href=${to("services", one.namespace, one.service)}>${one.service}</a>` : one.pod} <span class="faint">
      ${one.namespace}</span></span><span>${t("capacity.cards", { n: one.gpus })}</span></li>`,
  )}</ul>`}
</div>`;

/** The plan's reasons, folded where nothing is wrong. @param {{ fit: Fit }} props */
const Reasons = ({ fit }) =>
  fit.fits
    ? html`<details><summary aria-label=${`${t("plan.because")}: ${fit.model}`}>${t("plan.because")}</summary>
      ${fit.message}</details>`
    : fit.message;

/** @param {{ fits: Fit[] }} props */
const Fits = ({ fits }) => html`<section class="panel"><h2>${t("capacity.fits")}</h2>
  <${Wide} label=${t("capacity.fits")}><table>
  <thead><tr><th>${t("capacity.size")}</th><th>${t("plan.dtype")}</th><th class="number">${t("plan.context")}</th><th>
    ${t("services.status")}</th><th>${t("services.cards")}</th><th>${t("service.message")}</th></tr></thead>
  <tbody>${fits.map((one, index) => html`<tr key=${index}><td>${one.model} <span class="faint">${one.params}</span>
    </td><td>${one.dtype}</td><td class="number">${thousands(one.context)}</td><td>
    <${Status} state=${one.fits ? "good" : "bad"} text=${t(one.fits ? "plan.fits" : "plan.fits_not")} /></td><td>
    ${one.gpus ? `${one.gpus} × ${one.gpuType}` : "–"}</td><td class="faint wrap"><${Reasons} fit=${one} /></td></tr>`)}
  </tbody>
</table></${Wide}></section>`;
