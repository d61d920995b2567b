// What is licensed to whom, and when it ends; a new license may be uploaded where the user may.

import { html, useEffect, useState } from "../vendor/preact.js";
import { api } from "../model/api.js";
import { licenses, loadLicenses } from "../model/licenses.js";
import { ALL, chosenNamespace, useRights, useSession } from "../model/session.js";
import { span, thousands } from "../model/figures.js";
import { useStore } from "../model/store.js";
import { notify, sentenceOf } from "../parts/feedback.js";
import { Empty, Status, Trouble, useNow, Wide } from "../parts/controls.js";
import { Dialog } from "../parts/dialog.js";
import { Icon } from "../parts/icons.js";
import { moment, t } from "../text/index.js";
import { typed } from "../parts/typed.js";

/** @import { LicenseServer, State } from "../../../../types/api" */

const SOON_S = 30 * 86400;
const AGAIN_MS = 30_000;

export function LicensesPage() {
  const { value, error } = useStore(licenses);
  const namespace = useStore(chosenNamespace);
  const session = useSession();
  const can = useRights(namespace === ALL ? session.defaultNamespace || session.namespaces[0]?.name || "default" : namespace);
  useEffect(() => {
    document.title = `${t("nav.licenses")} · Windlass`;
  });
  useEffect(() => {
    loadLicenses();
    const timer = setInterval(() => document.visibilityState === "visible" && loadLicenses(), AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<section class="page"><header class="top"><h1>${t("nav.licenses")}</h1></header>
    ${error && html`<${Trouble} error=${error} onRetry=${loadLicenses} />`}
    ${!value && !error && html`<p class="loading" role="status">${t("licenses.asking")}</p>`}
    ${value && !value.servers.length && html`<${Empty} title=${t("licenses.none")}><p>${t("licenses.none_text")}</p>
      </${Empty}>`}
    ${value?.servers.map((one) => html`<${Server}
      key=${`${one.namespace}/${one.name}`} server=${one} inCluster=${value.gpusInCluster} may=${can.licenseUpload}
      onDone=${loadLicenses} />`)}
  </section>`;
}

/** @param {LicenseServer["license"]} license
 * @param {number} now
 * @returns {[State, string]} */
function standing(license, now) {
  if (!license) return ["bad", t("reason.LicenseMissing")];
  if (license.expired) return ["bad", t("reason.LicenseExpired")];
  return (Date.parse(license.expires) - now) / 1000 < SOON_S ? ["wait", t("licenses.ending")] : ["good", t("licenses.in_force")];
}

/** @param {{ server: LicenseServer, inCluster: number | null, may: boolean | undefined, onDone: () => void }} props */
function Server({ server, inCluster, may, onDone }) {
  const now = useNow();
  const [open, setOpen] = useState(false);
  const { license, leases } = server;
  const [state, text] = standing(license, now);
  const left = license ? (Date.parse(license.expires) - now) / 1000 : 0;
  return html`<section class="panel stack">
    <div class="top"><h2>${server.namespace}/${server.name}</h2>
      ${!server.problem && html`<${Status} state=${state} text=${text} />`}
      ${may && server.upload && html`<button type="button" class="plain end" onClick=${() => setOpen(true)}><${Icon} name="upload" />
        ${t("licenses.upload")}</button>`}</div>
    ${server.warning && html`<p class="problem">${server.warning}</p>`}
    ${server.problem && html`<${Trouble} error=${new Error(server.problem)} />`}
    ${license && html`<div class="tiles">
      <div class="tile"><small>${t("licenses.gpus")}</small><b>${thousands(license.gpus)}</b><small>
        ${inCluster === null ? "" : t("licenses.in_cluster", { n: inCluster })}</small></div>
      <div class="tile"><small>${t("licenses.in_use")}</small><b>${leases ? thousands(leases.gpus) : "–"}</b><small>
        ${license.limit ? t("licenses.at_most", { n: license.limit }) : t("licenses.no_limit")}</small></div>
      <div class="tile"><small>${t("licenses.ends")}</small><b>
        ${left > 0 ? t("licenses.in", { span: span(left) }) : t("licenses.ended")}</b><small>
        ${moment(license.expires)}</small></div>
    </div>
    <dl class="facts"><dt>${t("licenses.customer")}</dt><dd>${license.customer || "–"}</dd><dt>appid</dt><dd>
      ${license.appid || "–"}</dd><dt>${t("licenses.leases")}</dt><dd>${leases?.live ?? "–"}</dd></dl>
    ${license.grants.length > 0 && html`<${Wide} label=${t("licenses.brand")}><table><thead><tr><th>${t("licenses.brand")}</th><th
      class="number">${t("licenses.gpus")}</th><th>${t("licenses.issued")}</th><th>${t("licenses.ends")}</th></tr>
      </thead>
      <tbody>${license.grants.map((one, index) => html`<tr key=${index}><td>${one.brand || "–"}</td><td
        class="number">${one.count}</td><td>${moment(one.issued)}</td><td>${moment(one.expires)}</td></tr>`)}</tbody>
        </table></${Wide}>
      <details class="lines"><summary>${t("licenses.uuids")}</summary><ul class="uuids" tabindex="0"
        aria-label=${t("licenses.uuids")}>${license.grants.flatMap((one) => one.uuids).map((uuid) => html`<li
        key=${uuid}>${uuid}</li>`)}</ul></details>`}`}
    ${open && html`<${Upload} server=${server} onClose=${() => setOpen(false)} onDone=${onDone} />`}
  </section>`;
}

/** @param {{ server: LicenseServer, onClose: () => void, onDone: () => void }} props */
function Upload({ server, onClose, onDone }) {
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const send = async () => {
    if (!file) return setProblem(t("licenses.no_file"));
    try {
      const answer = await api.uploadLicense(server.namespace, server.name, file, token);
      notify(answer.message);
      onDone();
      onClose();
    } catch (error) {
      setProblem(sentenceOf(error));
    }
  };
  return html`<${Dialog} title=${t("licenses.upload")} onClose=${onClose} onSubmit=${send}>
    <p>${t("licenses.to", { server: `${server.namespace}/${server.name}` })}</p>
    ${server.warning && html`<p class="problem">${server.warning}</p>`}
    <label class="field"><span>${t("licenses.file")}</span><input type="file"
      onChange=${(/** @type {any} */ event) => setFile(event.target.files?.[0] ?? null)} /></label>
    ${server.adminToken && html`<label class="field"><span>${t("licenses.token")}</span><input
      type="password" autocomplete="off" value=${token} onInput=${typed(setToken)} /><small class="hint">
      ${t("licenses.token_hint")}</small></label>`}
    <p class="problem" role="alert">${problem}</p>
    <div class="row end"><button type="button" class="plain" onClick=${onClose}>${t("do.cancel")}</button><button
      type="submit" class="strong">${t("licenses.upload")}</button></div>
  </${Dialog}>`;
}
