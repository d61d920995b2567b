// What can be done to a service: only what the user may is offered; the API server decides all the same.

import { html, useState } from "../../vendor/preact.js";
import { api } from "../../model/api.js";
import { go, to } from "../../model/router.js";
import { Dialog } from "../../parts/dialog.js";
import { complain, notify, sentenceOf } from "../../parts/feedback.js";
import { Icon } from "../../parts/icons.js";
import { t } from "../../text/index.js";
import { typed } from "../../parts/typed.js";

/** @import { Detail, Rights } from "../../../../../types/api" */

/** @param {{ detail: Detail, can: Rights }} props */
export function Actions({ detail, can }) {
  const [open, setOpen] = useState(/** @type {"" | "scale" | "delete"} */ (""));
  const { namespace, name, suspend, state } = detail.row;
  const toggleSuspend = () =>
    api.suspend(namespace, name, !suspend).then(() => notify(t(suspend ? "action.resumed" : "action.suspended", { name })), complain);
  const retry = () => api.retry(namespace, name).then(() => notify(t("action.retried", { name })), complain);
  const close = () => setOpen("");
  return html`<div class="row end">
    ${can.edit && state === "bad" && html`<button type="button" class="plain" onClick=${retry}><${Icon}
      name="retry" />${t("action.retry")}</button>`}
    ${can.scale && html`<button type="button" class="plain" onClick=${() => setOpen("scale")}><${Icon} name="scale" />
      ${t("action.scale")}</button>`}
    ${can.edit && html`<button type="button" class="plain" onClick=${toggleSuspend}><${Icon}
      name=${suspend ? "play" : "pause"} />${t(suspend ? "action.resume" : "action.suspend")}</button>`}
    ${can.edit && html`<a class="plain" href=${to("services", namespace, name, "edit")}><${Icon} name="edit" />
      ${t("action.edit")}</a>`}
    ${can.delete && html`<button type="button" class="danger" onClick=${() => setOpen("delete")}><${Icon}
      name="trash" />${t("action.delete")}</button>`}
    ${open === "scale" && html`<${Scale} detail=${detail} onClose=${close} />`}
    ${open === "delete" && html`<${Delete} detail=${detail} onClose=${close} />`}
  </div>`;
}

/** @param {{ detail: Detail, onClose: () => void }} props */
function Scale({ detail, onClose }) {
  const { namespace, name, gpus } = detail.row;
  const [count, setCount] = useState(String(detail.service.spec.replicas ?? 1));
  const [problem, setProblem] = useState("");
  const wanted = /^\d{1,4}$/.test(count) && Number(count) <= 1000 ? Number(count) : null;
  const send = async () => {
    if (wanted === null) return setProblem(t("action.bad_count"));
    try {
      await api.scale(namespace, name, wanted);
      notify(t("action.scaled", { name, n: wanted }));
      onClose();
    } catch (error) {
      setProblem(sentenceOf(error));
    }
  };
  return html`<${Dialog} title=${t("action.scale_title", { name })} onClose=${onClose} onSubmit=${send}>
    <label class="field"><span>${t("form.replicas")}</span>
      <input type="number" min="0" max="1000" value=${count} aria-describedby="scale-hint scale-problem"
        onInput=${typed(setCount)} /></label>
    <p class="hint" id="scale-hint">
      ${wanted === 0 ? t("action.to_zero") : gpus ? t("action.scale_cards", { n: gpus * (wanted ?? 0) }) : ""}</p>
    <p class="problem" id="scale-problem" role="alert">${problem}</p>
    <div class="row end"><button type="button" class="plain" onClick=${onClose}>${t("do.cancel")}</button><button
      type="submit" class="strong">${t("action.scale")}</button></div>
  </${Dialog}>`;
}

/** @param {{ detail: Detail, onClose: () => void }} props */
function Delete({ detail, onClose }) {
  const { namespace, name } = detail.row;
  const [given, setGiven] = useState("");
  const [problem, setProblem] = useState("");
  const send = async () => {
    if (given !== name) return;
    try {
      await api.remove(namespace, name);
      notify(t("action.deleted", { name }));
      go(to("services"));
    } catch (error) {
      setProblem(sentenceOf(error));
    }
  };
  return html`<${Dialog} title=${t("action.delete_title", { name })} onClose=${onClose} onSubmit=${send}>
    <p>${t("action.delete_text")}</p>
    <label class="field"><span>${t("action.delete_name", { name })}</span>
      <input value=${given} autocomplete="off" spellcheck=${false} onInput=${typed(setGiven)} /></label>
    <p class="problem" role="alert">${problem}</p>
    <div class="row end"><button type="button" class="plain" onClick=${onClose}>${t("do.cancel")}</button><button
      type="submit" class="danger full" disabled=${given !== name}>${t("action.delete")}</button></div>
  </${Dialog}>`;
}
