// The Kubernetes Events of a service and of its objects, newest first.

import { html } from "../../vendor/preact.js";
import { api } from "../../model/api.js";
import { age } from "../../model/figures.js";
import { Empty, Loading, Status, Trouble, useAnswer, useNow, Wide } from "../../parts/controls.js";
import { reasonText } from "../../parts/reason.js";
import { moment, t } from "../../text/index.js";

const EVENTS_MS = 5000;

/** @param {{ namespace: string, name: string }} props */
export function Events({ namespace, name }) {
  const now = useNow();
  const { value, error } = useAnswer(() => api.events(namespace, name), [namespace, name], EVENTS_MS);
  if (error && !value) return html`<${Trouble} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  if (!value.items.length) return html`<${Empty} title=${t("events.none")} />`;
  return html`<section class="panel"><${Wide} label=${t("tab.events")}><table class="rows-on-phone">
    <thead><tr><th>${t("events.when")}</th><th>${t("services.status")}</th><th>${t("events.object")}</th><th>
      ${t("service.message")}</th></tr></thead>
    <tbody>${[...value.items].reverse().map(
      (one, index) => html`<tr key=${index}><td class="faint" title=${moment(one.lastTime)}>${age(one.lastTime, now)}
        </td>
        <td><${Status} state=${one.type === "Warning" ? "bad" : "off"} text=${reasonText(one.reason)} /></td>
        <td class="mono wrap">${one.object}</td><td class="wrap">${one.message}${one.count > 1 ? html` <span
          class="faint">× ${one.count}</span>` : null}</td></tr>`,
    )}</tbody></table></${Wide}></section>`;
}
