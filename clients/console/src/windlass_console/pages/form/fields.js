// A field of the form for each kind of schema. A field knows its path; the form knows the document.

import { createContext, html, useContext, useId, useState } from "../vendor/preact.js";
import { Icon } from "../parts/icons.js";
import { t } from "../text/index.js";
import { hintOf, kindOf, members, pathText, wrong } from "./schema.js";
import { valueAt } from "./document.js";
import { inWords, labelOf } from "./labels.js";

/** @import { Problem, Schema } from "../../../../types/api" */
/** @import { Path } from "./schema.js" */

/**
 * @typedef {object} Form what the fields work on
 * @property {any} value the document
 * @property {(path: Path, value: unknown) => void} put
 * @property {Problem[]} problems of the API server
 * @property {boolean} locked the YAML beside it cannot be read
 */

export const FormContext = createContext(/** @type {Form} */ ({ value: {}, put: () => {}, problems: [], locked: false }));

/**
 * @typedef {object} FieldProps
 * @property {Path} path
 * @property {Schema} schema
 * @property {unknown} [label] in place of the field's own name
 * @property {boolean} [words] the field and those inside it have the form's labels
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {string} [placeholder]
 * @property {string[]} [offers] values that are offered
 */

/** @param {Form} form
 * @param {Path} path */
const messagesOf = (form, path) => form.problems.filter((one) => one.field === pathText(path)).map((one) => inWords(one.message));

/** @param {FieldProps} props */
export function Field(props) {
  const kind = kindOf(props.schema);
  if (kind === "group") return html`<${Group} ...${props} />`;
  if (kind === "one") return html`<${OneOf} ...${props} />`;
  if (kind === "rows") return html`<${RowsField} ...${props} />`;
  if (kind === "switch") return html`<${Switch} ...${props} />`;
  if (kind === "map") return html`<${MapField} ...${props} />`;
  return html`<${Plain} ...${props} />`;
}

/** @param {FieldProps} props */
const nameOf = ({ label, words, path }) => label ?? ((words && labelOf(pathText(path))) || html`<code>${String(path.at(-1))}</code>`);

/** A text, a number, a choice, a quantity, or a list of texts. @param {FieldProps} props */
function Plain(props) {
  const { path, schema, required, placeholder, offers } = props;
  const form = useContext(FormContext);
  const id = useId();
  const value = valueAt(form.value, path);
  const kind = kindOf(schema);
  const local = kind === "texts" ? null : wrong(schema, value);
  const problems = [...(local ? [t(local.key, local.values)] : []), ...messagesOf(form, path)];
  const put = (/** @type {any} */ event) => form.put(path, parsed(kind, event.target.value, Boolean(required)));
  const common = {
    id,
    disabled: form.locked,
    "aria-invalid": problems.length ? "true" : undefined,
    "aria-describedby": `${id}-hint ${id}-problem`,
    "aria-required": required ? "true" : undefined,
    "data-path": pathText(path),
  };
  return html`<div class="field">
    <label class="name" for=${id}>${nameOf(props)}${required && html`<span class="must" aria-hidden="true">*</span>`}
      </label>
    ${kind === "choice" && html`<select ...${common} value=${value ?? ""} onChange=${put}>${choices(schema, required)}
      </select>`}
    ${kind === "texts" && html`<${Texts} common=${common} value=${value} onInputText=${put} />`}
    ${
      kind !== "choice" &&
      kind !== "texts" &&
      html`<input ...${common} inputmode=${kind === "number" ? "numeric" : undefined} value=${value ?? ""}
        list=${offers?.length ? `${id}-offers` : undefined}
        placeholder=${placeholder ?? standard(schema)} autocomplete="off" spellcheck=${false} onInput=${put} />`
    }
    ${offers?.length ? html`<datalist id=${`${id}-offers`}>${offers.map((one) => html`<option key=${one}
      value=${one} />`)}</datalist>` : null}
    <small class="hint" id=${`${id}-hint`}>${props.hint ?? hintOf(schema)}</small>
    <small class="problem" id=${`${id}-problem`} aria-live="polite">${problems.join(" ")}</small>
  </div>`;
}

/** One text on each line; what is typed stays as it is until the field is left.
 * @param {{ common: object, value: unknown, onInputText: (event: any) => void }} props */
function Texts({ common, value, onInputText }) {
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const lines = Array.isArray(value) ? value.map(String) : [];
  const input = (/** @type {any} */ event) => {
    setDraft(event.target.value);
    onInputText(event);
  };
  return html`<textarea ...${common} class="mono" rows=${Math.min(8, Math.max(2, lines.length + 1))}
    value=${draft ?? lines.join("\n")} spellcheck=${false} onInput=${input} onBlur=${() => setDraft(null)} />`;
}

/** @param {Schema} schema */
const standard = (schema) => (schema.default === undefined || schema.default === "" ? "" : String(schema.default));

/** @param {Schema} schema
 * @param {boolean | undefined} required */
const choices = (schema, required) => [
  ...(required && schema.default === undefined ? [html`<option value="" disabled>${t("form.choose")}</option>`] : []),
  ...(required ? [] : [html`<option value="">
    ${schema.default === undefined ? t("form.planned") : t("form.default", { value: String(schema.default) || '""' })}
    </option>`]),
  ...(schema.enum ?? []).filter((one) => one !== "").map((one) => html`<option key=${one} value=${one}>${one}
    </option>`),
];

/**
 * @param {string} kind
 * @param {string} text
 * @param {boolean} required
 */
function parsed(kind, text, required) {
  if (kind === "texts") {
    const lines = text.split("\n").filter((line) => line !== "");
    return lines.length ? lines : undefined;
  }
  if (text === "") return required ? "" : undefined;
  return (kind === "number" || kind === "quantity") && /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text;
}

/** True, false, or left out. @param {FieldProps} props */
function Switch(props) {
  const { path, schema } = props;
  const form = useContext(FormContext);
  const id = useId();
  const value = valueAt(form.value, path);
  const problems = messagesOf(form, path);
  const put = (/** @type {any} */ event) => form.put(path, event.target.value === "" ? undefined : event.target.value === "true");
  const unset = schema.default === undefined ? t("form.planned") : t("form.default", { value: schema.default ? t("form.on") : t("form.off") });
  return html`<div class="field">
    <label class="name" for=${id}>${nameOf(props)}</label>
    <select id=${id} data-path=${pathText(path)} disabled=${form.locked}
      value=${value === undefined ? "" : String(value)} aria-describedby=${`${id}-hint`} onChange=${put}>
      <option value="">${unset}</option><option value="true">${t("form.on")}</option><option value="false">
        ${t("form.off")}</option>
    </select>
    <small class="hint" id=${`${id}-hint`}>${props.hint ?? hintOf(schema)}</small>
    <small class="problem" aria-live="polite">${problems.join(" ")}</small>
  </div>`;
}

/** Exactly one of several groups. @param {FieldProps & { names?: Record<string, string> }} props */
export function OneOf(props) {
  const { path, schema, names = {} } = props;
  const form = useContext(FormContext);
  const id = useId();
  const value = valueAt(form.value, path);
  const chosen = Object.keys(schema.properties ?? {}).find((name) => value?.[name] !== undefined) ?? "";
  const choose = (/** @type {any} */ event) => {
    const name = event.target.value;
    const needs = schema.properties?.[name]?.required ?? [];
    form.put(path, name ? { [name]: Object.fromEntries(needs.map((need) => [need, ""])) } : undefined);
  };
  const member = schema.properties?.[chosen];
  return html`<div class="field wide" role="group" aria-labelledby=${`${id}-name`}>
    <label class="name" id=${`${id}-name`} for=${id}>${nameOf(props)}</label>
    <select id=${id} data-path=${pathText(path)} disabled=${form.locked} value=${chosen} onChange=${choose}>
      ${(!props.required || !chosen) && html`<option value="">${t("form.none")}</option>`}
      ${Object.keys(schema.properties ?? {}).map((name) => html`<option key=${name} value=${name}>
        ${names[name] ?? name}</option>`)}
    </select>
    <small class="hint">${props.hint ?? hintOf(member ?? schema)}</small>
    <small class="problem" aria-live="polite">${messagesOf(form, path).join(" ")}</small>
    ${member && html`<div class="grid"><${Members} path=${[...path, chosen]} schema=${member} words=${props.words} /></div>`}
  </div>`;
}

/** @param {{ path: Path, schema: Schema, words?: boolean }} props */
export function Members({ path, schema, words }) {
  const form = useContext(FormContext);
  return members(schema, valueAt(form.value, path)).map(
    ([name, member]) =>
      html`<${Field} key=${name} path=${[...path, name]} schema=${member} words=${words}
        required=${schema.required?.includes(name)} />`,
  );
}

/** A group of fields, folded; what is inside is made when it is opened. @param {FieldProps & { open?: boolean }} props */
function Group(props) {
  const { path, schema } = props;
  const form = useContext(FormContext);
  const value = valueAt(form.value, path);
  const set = value && typeof value === "object" ? Object.keys(value).length : 0;
  const [open, setOpen] = useState(Boolean(props.open));
  const toggled = (/** @type {any} */ event) => setOpen(event.currentTarget.open);
  return html`<details class="group wide" open=${open} onToggle=${toggled}>
    <summary>${nameOf(props)} ${set ? html`<span class="set">${t("form.set", { n: set })}</span>` : null}<small
      class="hint">${hintOf(schema)}</small></summary>
    ${open && html`<div class="grid"><${Members} path=${path} schema=${schema} words=${props.words} /></div>`}
  </details>`;
}

/** A list of objects. @param {FieldProps} props */
function RowsField(props) {
  const { path, schema } = props;
  const form = useContext(FormContext);
  const value = valueAt(form.value, path);
  /** @type {any[]} */
  const rows = Array.isArray(value) ? value : [];
  const item = schema.items ?? {};
  const add = () => form.put([...path, rows.length], Object.fromEntries((item.required ?? []).map((name) => [name, ""])));
  const drop = (/** @type {number} */ index) => form.put(path, rows.length === 1 ? undefined : rows.filter((_, at) => at !== index));
  return html`<fieldset class="list wide">
    <legend>${nameOf(props)}</legend>
    <small class="hint">${props.hint ?? hintOf(schema)}</small>
    ${rows.map(
      (_, index) => html`<div key=${index} class="item">
        <div class="grid"><${Members} path=${[...path, index]} schema=${item} /></div>
        <button type="button" class="quiet square" disabled=${form.locked}
          aria-label=${t("form.remove", { n: index + 1 })} onClick=${() => drop(index)}><${Icon} name="close" />
          </button>
      </div>`,
    )}
    <small class="problem" aria-live="polite">${messagesOf(form, path).join(" ")}</small>
    <div><button type="button" class="plain" disabled=${form.locked} data-path=${pathText(path)} onClick=${add}>
      <${Icon} name="plus" />${t("form.add")}</button></div>
  </fieldset>`;
}

/** Texts by name, as labels are. @param {FieldProps} props */
function MapField(props) {
  const { path, schema } = props;
  const form = useContext(FormContext);
  const id = useId();
  const value = valueAt(form.value, path) ?? {};
  const [draft, setDraft] = useState(/** @type {string | null} */ (null));
  const lines = Object.entries(value).map(([key, text]) => `${key}=${text}`);
  const put = (/** @type {any} */ event) => {
    setDraft(event.target.value);
    /** @type {string[]} */
    const given = event.target.value.split("\n").filter(Boolean);
    const pairs = given.map((line) => [line.split("=")[0], line.split("=").slice(1).join("=")]);
    form.put(path, pairs.length ? Object.fromEntries(pairs) : undefined);
  };
  return html`<div class="field">
    <label class="name" for=${id}>${nameOf(props)}</label>
    <textarea id=${id} data-path=${pathText(path)} class="mono" rows="2" disabled=${form.locked}
      placeholder="key=value" value=${draft ?? lines.join("\n")} spellcheck=${false} onInput=${put}
      onBlur=${() => setDraft(null)} aria-describedby=${`${id}-hint`} />
    <small class="hint" id=${`${id}-hint`}>${props.hint ?? hintOf(schema)} ${t("form.pairs")}</small>
    <small class="problem" aria-live="polite">${messagesOf(form, path).join(" ")}</small>
  </div>`;
}
