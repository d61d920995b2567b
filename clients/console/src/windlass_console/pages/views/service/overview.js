// What a service does now, what it waits for and what to do; then its phases, conditions, plan and pods.

import { html } from "../../vendor/preact.js";
import { api } from "../../model/api.js";
import { age, figure, span, thousands } from "../../model/figures.js";
import { Status, Trouble, useAnswer, useNow, Wide } from "../../parts/controls.js";
import { PlanView } from "../../parts/plan.js";
import { reasonText } from "../../parts/reason.js";
import { moment, t, tOr } from "../../text/index.js";

/** @import { Condition, Detail, Phase, Pod, Rights, State } from "../../../../../types/api" */

const PODS_MS = 5000;
const NEUTRAL = new Set(["Progressing", "Downloading"]);
const NEGATIVE = new Set(["Degraded", "Outdated", "Stalled"]);
const GIB = 1024 ** 3;

/** @param {{ detail: Detail, can: Rights }} props */
export function Overview({ detail, can }) {
  const { status } = detail.service;
  return html`<div class="columns">
    <div class="stack">
      <${Now} detail=${detail} />
      ${can.pods && html`<${Pods} namespace=${detail.row.namespace} name=${detail.row.name} />`}
      <${Conditions} rows=${status?.conditions ?? []} />
    </div>
    <div class="stack">
      ${status?.plan && html`<section class="panel plan"><h2>${t("plan.title")}</h2>
        <${PlanView} plan=${status.plan} /></section>`}
      ${status?.startup?.length ? html`<${Phases} rows=${status.startup} />` : null}
    </div>
  </div>`;
}

/** Whether the service runs as it was, and a change of it waits for somebody. @param {Detail} detail */
export function isHeldUp({ row, service }) {
  const progress = service.status?.conditions?.find((one) => one.type === "Progressing");
  return row.state === "good" && progress?.status === "False" && progress.reason === service.status?.failure?.reason;
}

/** @param {{ detail: Detail }} props */
function Now({ detail }) {
  const { row, service, remedy } = detail;
  const failure = service.status?.failure;
  const ready = service.status?.conditions?.find((one) => one.type === "Ready");
  const advice = remedy || failure?.remedy;
  const failing = row.state !== "good" || isHeldUp(detail);
  const shown = failing && advice && advice !== "nothing to do";
  return html`<section class=${`panel now ${isHeldUp(detail) ? "bad" : row.state}`} aria-labelledby="now-title">
    <h2 id="now-title">${t("service.now")}</h2>
    <p class="sentence">${ready?.message || row.message || t("service.unseen")}</p>
    ${service.status?.download?.bytesTotal && row.status === "Downloading" ? html`<${Download} download=${service.status.download} />` : null}
    ${shown && html`<p class="remedy wrap"><b>${t("service.remedy")}</b>${advice}</p>`}
    ${failure?.reason && failing && html`<p class="hint">${failureLine(failure)}</p>`}
    ${failure?.excerpt && failing && html`<pre class="excerpt" tabindex="0" role="region"
      aria-label=${t("service.excerpt")}>${failure.excerpt.trim()}</pre>`}
  </section>`;
}

/** @param {NonNullable<NonNullable<Detail["service"]["status"]>["failure"]>} failure */
const failureLine = (failure) =>
  [
    failure.reason && reasonText(failure.reason),
    failure.container && t("service.container", { name: failure.container }),
    failure.exitCode !== undefined && t("service.exit", { code: failure.exitCode }),
    (failure.count ?? 0) > 1 && t("service.times", { n: failure.count ?? 0 }),
  ]
    .filter(Boolean)
    .join(" · ");

/** @param {{ download: NonNullable<NonNullable<Detail["service"]["status"]>["download"]> }} props */
function Download({ download }) {
  const [done, total] = [download.bytesDone ?? 0, download.bytesTotal ?? 1];
  const words = t(download.remainingSeconds === undefined ? "service.download_now" : "service.download", {
    done: (done / GIB).toFixed(2),
    total: (total / GIB).toFixed(2),
    speed: ((download.bytesPerSecond ?? 0) / 1024 ** 2).toFixed(0),
    left: span(download.remainingSeconds ?? 0),
  });
  return html`<progress max=${total} value=${done} aria-label=${t("reason.Downloading")}></progress><p class="hint">
    ${words}</p>`;
}

/** @param {{ rows: Phase[] }} props */
function Phases({ rows }) {
  const most = Math.max(...rows.map((one) => figure(one.seconds)), 0.001);
  return html`<section class="panel"><h2>${t("service.startup")}</h2>
    <ol class="phases">${rows.map(
      (one) => html`<li key=${one.phase}><span>${tOr(`phase.${one.phase}`, one.phase)}</span><span class="track"
        aria-hidden="true"><i style=${{ width: `${(100 * figure(one.seconds)) / most}%` }}></i></span><span
        class="seconds">${one.seconds} s</span></li>`,
    )}</ol>
    <p class="hint">${t("service.overlap")}</p>
  </section>`;
}

/** @param {Condition} one
 * @returns {State} */
function stateOfCondition(one) {
  if (NEUTRAL.has(one.type)) return one.status === "True" ? "wait" : "off";
  if (NEGATIVE.has(one.type)) return one.status === "True" ? "bad" : "good";
  return one.status === "True" ? "good" : one.status === "False" ? "bad" : "wait";
}

/** @param {{ rows: Condition[] }} props */
function Conditions({ rows }) {
  const now = useNow();
  if (!rows.length) return null;
  return html`<section class="panel"><h2>${t("service.conditions")}</h2>
    <${Wide} label=${t("service.conditions")}>
    <table class="conditions rows-on-phone"><thead><tr><th>${t("service.condition")}</th><th>${t("services.status")}</th><th>
      ${t("service.since")}</th><th>${t("service.message")}</th></tr></thead>
    <tbody>${rows.map(
      (one) => html`<tr key=${one.type}><td>${one.type}</td><td>
        <${Status} state=${stateOfCondition(one)} text=${reasonText(one.reason)} /></td><td class="faint"
        title=${moment(one.lastTransitionTime)}>${age(one.lastTransitionTime, now)}</td><td>${one.message}</td></tr>`,
    )}</tbody></table></${Wide}></section>`;
}

/** @param {Pod} pod
 * @returns {State} */
const podState = (pod) => (pod.ready ? "good" : pod.restarts || pod.phase === "Failed" ? "bad" : "wait");

/** @param {Pod} pod */
const podText = (pod) => {
  if (pod.deleting) return t("state.deleting");
  if (pod.state === "Running") return t(pod.ready ? "reason.Running" : "state.not_ready");
  return pod.state; // a word of Kubernetes
};

/** @param {{ namespace: string, name: string }} props */
function Pods({ namespace, name }) {
  const now = useNow();
  const { value, error } = useAnswer(() => api.pods(namespace, name), [namespace, name], PODS_MS);
  if (error && !value) return html`<${Trouble} error=${error} />`;
  if (!value) return null;
  return html`<section class="panel"><h2>${t("service.pods")} <small>${thousands(value.items.length)}</small></h2>
    ${value.items.length ? html`<${Wide} label=${t("service.pods")}><table><thead><tr><th>${t("services.name")}</th><th>
      ${t("services.status")}</th><th>${t("service.node")}</th><th class="number">${t("service.restarts")}</th><th
      class="number">${t("services.age")}</th></tr></thead>
      <tbody>${value.items.map(
        (pod) => html`<tr key=${pod.name}><td class="mono wrap">${pod.name}</td><td>
          <${Status} state=${podState(pod)} text=${podText(pod)} /></td>
          <td>${pod.node || "–"}</td><td class="number">${pod.restarts}</td>
          <td class="number">${age(pod.created, now)}</td></tr>`,
      )}</tbody></table></${Wide}>` : html`<p class="hint">${t("service.no_pods")}</p>`}
  </section>`;
}
