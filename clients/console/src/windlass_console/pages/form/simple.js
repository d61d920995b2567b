// The fields that most services need, in plain sentences; every other field is behind them.

import { html, useContext, useEffect, useState } from "../vendor/preact.js";
import { ALL, useSession } from "../model/session.js";
import { t } from "../text/index.js";
import { at, everyField, hintOf, kindOf, pathText } from "./schema.js";
import { FormContext, Field, Members, OneOf } from "./fields.js";
import { valueAt } from "./document.js";
import { useStore } from "../model/store.js";
import { showField, wantedField } from "./field_focus.js";
import { typed } from "../parts/typed.js";

/** @import { Choices, KnownModel, Schema } from "../../../../types/api" */

const SOURCES = { pvc: "PersistentVolumeClaim", cfs: "Cloud File Storage (CFS)", nfs: "NFS", gooseFSx: "GooseFSx", hostPath: "hostPath" };
const QUANTIZATIONS = ["auto", "none", "fp8", "ifq", "ifq_nf4", "smoothquant"];
const SHOWN_MOST = 60;

/**
 * @typedef {object} SimpleProps
 * @property {Schema} schema
 * @property {boolean} fixed name and namespace are those of an existing service
 * @property {KnownModel[]} models
 * @property {Choices | null} choices
 */

/** @param {SimpleProps} props */
export function SimpleFields({ schema, fixed, models, choices }) {
  const form = useContext(FormContext);
  const show = (/** @type {string} */ path, /** @type {object} */ more) => {
    const parts = path.split(".");
    const found = at(schema, parts);
    return found && html`<${Field} key=${path} path=${parts} schema=${found} words=${true} ...${more} />`;
  };
  const source = at(schema, ["spec", "model", "source"]);
  return html`
    <${Section} title=${t("form.model")}>
      ${fixed ? null : html`<${Naming} schema=${schema} />`}
      ${!fixed && models.length > 0 && html`<${Taken} models=${models} />`}
      ${show("spec.model.id", { hint: t("form.id_hint"), required: true, placeholder: "Qwen2-7B-Instruct" })}
      ${source && html`<${OneOf} path=${["spec", "model", "source"]} schema=${source}
        words=${true} hint=${t("form.source_hint")} required=${true} names=${SOURCES} />`}
      ${choices?.claims?.length ? html`<${Claims} claims=${choices.claims} />` : null}
      <${Download} schema=${schema} />
    </${Section}>
    <${Section} title=${t("form.resources")}>
      ${show("spec.resources.gpuType", {
        hint: t("form.gpu_type_hint"),
        offers: choices?.gpuTypes?.map((one) => one.name),
        placeholder: t("form.planned"),
      })}
      ${show("spec.resources.gpus", { hint: t("form.gpus_hint"), placeholder: t("form.planned") })}
      ${show("spec.replicas", { hint: t("form.replicas_hint") })}
      ${show("spec.engine.maxModelLen", { hint: t("form.context_hint"), placeholder: t("form.planned") })}
    </${Section}>
    <${Section} title=${t("form.mode")}>
      ${show("spec.deployment.mode", { hint: t("form.deployment_hint") })}
      ${show("spec.image.family", { hint: t("form.family_hint") })}
      ${show("spec.engine.quantization", {
        hint: t("form.quantization_hint"),
        offers: QUANTIZATIONS,
        placeholder: t("form.planned"),
      })}
      ${show("spec.engine.lookahead.enabled", { hint: t("form.lookahead_hint") })}
    </${Section}>
    <${Section} title=${t("form.start")}>
      ${show("spec.args", { hint: t("form.args_hint"), placeholder: "" })}
      ${show("spec.command", { hint: t("form.command_hint") })}
    </${Section}>
    <${Everything} schema=${schema} form=${form} />
  `;
}

/** @param {{ title: string, children?: unknown }} props */
const Section = ({ title, children }) => html`<fieldset class="section"><legend>${title}</legend><div class="grid">
  ${children}</div></fieldset>`;

/** @param {{ schema: Schema }} props */
function Naming({ schema }) {
  const session = useSession();
  const form = useContext(FormContext);
  const name = at(schema, ["metadata", "name"]) ?? { type: "string" };
  const namespace = form.value.metadata?.namespace ?? "";
  const names = session.namespaces.filter((one) => one.create && one.name !== ALL).map((one) => one.name);
  const known = names.includes(namespace) || !namespace ? names : [namespace, ...names];
  const put = (/** @type {any} */ event) => form.put(["metadata", "namespace"], event.target.value.trim());
  return html`
    <${Field} path=${["metadata", "name"]} schema=${name}
      words=${true} hint=${t("form.name_hint")} required=${true} placeholder="qwen2-7b" />
    <div class="field"><label class="name" for="form-namespace">${t("nav.namespace")}<span class="must"
      aria-hidden="true">*</span></label>
      ${
        session.namespacesComplete
          ? html`<select id="form-namespace" data-path="metadata.namespace" disabled=${form.locked} value=${namespace}
            onChange=${put}>${known.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
          : html`<input id="form-namespace" data-path="metadata.namespace" disabled=${form.locked} value=${namespace}
            list="form-namespaces" onChange=${put} spellcheck=${false} /><datalist id="form-namespaces">
            ${known.map((one) => html`<option key=${one} value=${one} />`)}</datalist>`
      }
      <small class="hint">${t("form.namespace_hint")} ${session.namespacesComplete ? "" : t("nav.namespaces_cut", { n: session.namespaces.length })}</small>
    </div>
  `;
}

/** @param {{ models: KnownModel[] }} props */
function Taken({ models }) {
  const form = useContext(FormContext);
  const take = (/** @type {any} */ event) => {
    const found = models[Number(event.target.value)];
    event.target.value = "";
    if (!found) return;
    form.put(["spec", "model", "id"], found.id);
    form.put(["spec", "model", "source"], found.source);
  };
  return html`<div class="field"><label class="name" for="form-taken">${t("form.taken")}</label>
    <select id="form-taken" disabled=${form.locked} onChange=${take}>
      <option value="">${t("form.choose")}</option>
      ${models.map((one, index) => html`<option key=${`${one.namespace}/${one.service}`} value=${index}>
        ${`${one.id} · ${one.service}`}</option>`)}
    </select>
    <small class="hint">${t("form.taken_hint")}</small>
  </div>`;
}

/** The claims of the namespace, one click each. @param {{ claims: NonNullable<Choices["claims"]> }} props */
function Claims({ claims }) {
  const form = useContext(FormContext);
  if (valueAt(form.value, ["spec", "model", "source", "pvc"]) === undefined) return null;
  const chosen = valueAt(form.value, ["spec", "model", "source", "pvc", "claimName"]);
  return html`<div class="field wide"><span class="name" id="form-claims">${t("form.claims")}</span>
    <div class="chips" role="group" aria-labelledby="form-claims">${claims.map(
      (one) => html`<button key=${one.name} type="button" disabled=${form.locked}
        aria-pressed=${chosen === one.name ? "true" : "false"}
        onClick=${() => form.put(["spec", "model", "source", "pvc", "claimName"], one.name)}>${one.name} <small>
        ${one.size}</small></button>`,
    )}</div></div>`;
}

/** @param {{ schema: Schema }} props */
function Download({ schema }) {
  const form = useContext(FormContext);
  const path = ["spec", "model", "download"];
  const on = valueAt(form.value, path) !== undefined;
  const own = at(schema, path);
  const turn = (/** @type {any} */ event) => form.put(path, event.target.checked ? { hub: "modelscope", name: "" } : undefined);
  return html`<div class="field wide">
    <label class="check"><input type="checkbox" data-path="spec.model.download" checked=${on} disabled=${form.locked}
      onChange=${turn} /><span>${t("form.download")}</span></label>
    <small class="hint">${t("form.download_hint")}</small>
    ${on && own && html`<div class="grid"><${Members} path=${path} schema=${own} words=${true} /></div>`}
  </div>`;
}

/** Every field of the schema: by its place, or by a word. @param {{ schema: Schema, form: import("./fields.js").Form }} props */
function Everything({ schema, form }) {
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState(false);
  const spec = at(schema, ["spec"]) ?? {};
  const toggled = (/** @type {any} */ event) => setOpen(event.currentTarget.open);
  const wanted = useStore(wantedField);
  useEffect(() => {
    if (!wanted) return;
    if (open && query === wanted.split("[")[0]) showField(wanted);
    setOpen(true);
    setQuery(wanted.split("[")[0]);
  }, [wanted, open, query]);
  return html`<details class="everything" open=${open} onToggle=${toggled}><summary><h2>${t("form.everything")}</h2><small class="hint">
    ${t("form.everything_hint")}</small></summary>
    <label class="field find"><span class="unseen">${t("form.find")}</span><input type="search"
      placeholder=${t("form.find")} value=${query} onInput=${typed(setQuery)} /></label>
    ${open && html`<div class="grid">${query.trim()
      ? html`<${Found} spec=${spec} query=${query} />`
      : html`<${Members} path=${["spec"]} schema=${spec} />`}</div>`}
  </details>`;
}

/** @param {{ spec: Schema, query: string }} props */
function Found({ spec, query }) {
  const parts = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = everyField(spec, ["spec"]).filter(({ path, schema }) => {
    if (kindOf(schema) === "group") return false;
    const text = `${pathText(path)} ${hintOf(schema)}`.toLowerCase();
    return parts.every((part) => text.includes(part));
  });
  if (!found.length) return html`<p class="hint">${t("form.found_none")}</p>`;
  return found.slice(0, SHOWN_MOST).map(({ path, schema }) => html`<${Field}
    key=${pathText(path)} path=${path} schema=${schema} label=${html`<code>${pathText(path.slice(1))}</code>`} />`);
}
