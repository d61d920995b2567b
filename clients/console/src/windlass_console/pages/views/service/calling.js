// How a program calls the service.

import { html, useState } from "../../vendor/preact.js";
import { api } from "../../model/api.js";
import { Code, Copy, Loading, Trouble, useAnswer } from "../../parts/controls.js";
import { t } from "../../text/index.js";

/** @import { Detail } from "../../../../../types/api" */

/** @param {{ namespace: string, name: string, detail: Detail }} props */
export function Calling({ namespace, name, detail }) {
  const version = detail.service.metadata.resourceVersion;
  const { value, error } = useAnswer(() => api.call(namespace, name), [namespace, name, version]);
  const [way, setWay] = useState("curl");
  if (error) return html`<${Trouble} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  return html`<div class="stack">
    <section class="panel"><h2>${t("call.where")}</h2>
      <dl class="facts">
        <dt>${t("call.model")}</dt><dd class="row"><code>${value.model}</code><${Copy} text=${value.model} /></dd>
        ${value.addresses.map((one) => html`<dt key=${one.name}>${one.name}</dt><dd class="row"><code>${one.url}
          </code><${Copy} text=${one.url} /></dd>`)}
        <dt>${t("call.key")}</dt><dd>
          ${value.keyed ? t("call.keyed", { secret: value.keysSecret ?? "–" }) : t("call.open")}</dd>
      </dl>
    </section>
    <section class="panel stack"><div class="chips" role="group" aria-label=${t("call.how")}>
        ${[["curl", "curl"], ["python", "Python"], ["dify", "Dify"]].map(([id, title]) => html`<button key=${id}
          type="button" aria-pressed=${way === id ? "true" : "false"} onClick=${() => setWay(id)}>${title}</button>`)}
      </div>
      ${way === "curl" && html`<${Code} text=${value.curl} label="curl" />`}
      ${way === "python" && html`<${Code} text=${value.python} label="Python" />`}
      ${way === "dify" && html`<p class="hint">${t("call.dify")}</p><dl class="facts">
        ${value.dify.map(([label, text]) => html`<dt key=${label}>${label}</dt><dd class="row"><code>${text}</code>
        <${Copy} text=${text} /></dd>`)}</dl>`}
    </section>
  </div>`;
}
