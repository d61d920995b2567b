// A new service, or the edit of one: the form, the YAML and the plan, all of one text.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { api, ApiError } from "../model/api.js";
import { draftOf, dropDraft, keepDraft } from "../model/drafts.js";
import { beforeLeaving, go, to } from "../model/router.js";
import { ALL, chosenNamespace, useSession } from "../model/session.js";
import { complain, notify, sentenceOf } from "../parts/feedback.js";
import { Loading, Trouble, useAnswer } from "../parts/controls.js";
import { t } from "../text/index.js";
import { editable, fresh, read, write } from "../form/document.js";
import { FormContext } from "../form/fields.js";
import { likeness, missing, usePlan } from "../form/planning.js";
import { PlanPanel } from "../form/plan_panel.js";
import { showField } from "../form/field_focus.js";
import { inWords, nameInWords } from "../form/labels.js";
import { pathText } from "../form/schema.js";
import { SimpleFields } from "../form/simple.js";
import { typed } from "../parts/typed.js";

/** @import { Choices, KnownModel, Problem, Schema, Service } from "../../../../types/api" */
/** @import { Path } from "../form/schema.js" */

export function New() {
  const session = useSession();
  const schema = useAnswer(api.schema, []);
  const namespace = useMemo(() => {
    const possible = session.namespaces.filter((one) => one.create).map((one) => one.name);
    const here = chosenNamespace.get();
    if (here !== ALL && (possible.includes(here) || !session.namespacesComplete)) return here;
    return possible.includes(session.defaultNamespace) ? session.defaultNamespace : (possible[0] ?? "default");
  }, []);
  if (schema.error) return html`<${Page} title=${t("deploy.new")}><${Trouble} error=${schema.error}
    onRetry=${schema.again} /></${Page}>`;
  if (!schema.value) return html`<${Page} title=${t("deploy.new")}><${Loading} /></${Page}>`;
  return html`<${Editor} id="new" schema=${schema.value} text=${fresh(namespace)} />`;
}

/** @param {{ namespace: string, name: string }} props */
export function Edit({ namespace, name }) {
  const id = `${namespace}/${name}`;
  const { user } = useSession();
  const load = async () => draftOf(id, user)?.service ?? (await api.service(namespace, name)).service;
  const both = useAnswer(() => Promise.all([api.schema(), load()]), [namespace, name]);
  const title = t("deploy.edit", { name });
  if (both.error) return html`<${Page} title=${title}><${Trouble} error=${both.error} onRetry=${both.again} />
    </${Page}>`;
  if (!both.value) return html`<${Page} title=${title}><${Loading} /></${Page}>`;
  const [schema, service] = both.value;
  return html`<${Editor} id=${id} schema=${schema} text=${editable(service)} service=${service} />`;
}

/** @param {{ title: string, children?: unknown }} props */
const Page = ({ title, children }) => html`<section class="page"><header class="top"><h1>${title}</h1></header>
  ${children}</section>`;

/**
 * What the form may offer; an empty list where the user may not read it.
 * @param {string} namespace
 * @returns {{ models: KnownModel[], choices: Choices | null }}
 */
function useOffers(namespace) {
  const models = useAnswer(() => api.models(namespace), [namespace]);
  const choices = useAnswer(() => api.choices(namespace), [namespace]);
  return { models: models.value?.items ?? [], choices: choices.value ?? null };
}

/** @param {{ id: string, schema: Schema, text: string, service?: Service }} props */
function Editor({ id, schema, text: first, service }) {
  const { user } = useSession();
  const draft = useMemo(() => draftOf(id, user), [id]);
  const [text, setText] = useState(draft?.text ?? first);
  const [config, setConfig] = useState(/** @type {unknown} */ (draft?.config ?? null));
  const [refusals, setRefusals] = useState(/** @type {Problem[]} */ ([]));
  const [busy, setBusy] = useState(false);
  const newest = useRef(text);
  const good = useRef(/** @type {any} */ ({}));
  const reading = useMemo(() => read(text, good.current), [text]);
  if (!reading.line) good.current = reading.value;
  const document = reading.value;
  const needed = useMemo(() => missing(schema, document), [schema, document]);
  const { models, choices } = useOffers(document.metadata?.namespace || "default");
  const neededToPlan = useMemo(() => needed.filter(([group]) => group !== "metadata"), [needed]); // a plan has no name
  const planning = usePlan(document, config, likeness(document, models), !reading.line && !neededToPlan.length);

  const change = useCallback((/** @type {string} */ next) => {
    newest.current = next;
    setRefusals([]);
    setText(next);
  }, []);
  const put = useCallback((/** @type {Path} */ path, /** @type {unknown} */ value) => change(write(newest.current, path, value)), [change]);
  const use = useCallback(
    (/** @type {string} */ field, /** @type {string} */ value) => {
      put(["spec", "engine", field], /^\d+$/.test(value) ? Number(value) : value === "true" ? true : value === "false" ? false : value);
    },
    [put],
  );
  useUnsaved(newest, first, id);
  useEffect(() => {
    if (draft) notify(t("deploy.restored"));
  }, [draft]);
  useEffect(() => {
    if (text !== first || config !== null) keepDraft(id, { user, text, config, service });
    else dropDraft(id);
  }, [text, config]);
  const problems = [...refusals, ...(planning.answer?.problems ?? [])];
  const send = () => save({ document, service, first: newest, setBusy, setRefusals });
  const title = service ? t("deploy.edit", { name: service.metadata.name }) : t("deploy.new");
  useEffect(() => {
    globalThis.document.title = `${title} · Windlass`;
  });
  return html`<section class="page deploy">
    <header class="top">
      <h1>${title}</h1>
      <div class="row end">
        <a class="plain" href=${service ? to("services", service.metadata.namespace, service.metadata.name) : to("services")}>${t("do.cancel")}</a>
        <button type="button" class="strong" disabled=${busy || Boolean(reading.line)}
          onClick=${() => (needed.length ? showMissing(needed) : send())}>
          ${service ? t("deploy.save") : t("deploy.create")}</button>
      </div>
    </header>
    <div class="editor">
      <${FormContext.Provider} value=${{ value: document, put, problems, locked: Boolean(reading.line) }}>
        <form class="fields" aria-label=${t("deploy.form")}
          onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
          <${SimpleFields} schema=${schema} fixed=${Boolean(service)} models=${models} choices=${choices} />
        </form>
      </${FormContext.Provider}>
      <div class="side">
        <${PlanPanel} planning=${planning} needed=${neededToPlan} yamlProblem=${reading.problem} config=${config}
          onConfig=${setConfig} onUse=${use} />
        <${Yaml} text=${text} reading=${reading} onInputText=${change} />
      </div>
    </div>
  </section>`;
}

/** @param {Path[]} needed */
function showMissing(needed) {
  complain(new Error(t("deploy.needed", { fields: needed.map(nameInWords).join(", ") })));
  showField(pathText(needed[0]));
}

/** The page asks before it throws away what was typed.
 * @param {{ current: string }} newest
 * @param {string} first
 * @param {string} id of the form's draft, which leaving throws away */
function useUnsaved(newest, first, id) {
  useEffect(() => {
    const unsaved = () => newest.current !== first && newest.current !== "";
    const stay = (/** @type {BeforeUnloadEvent} */ event) => unsaved() && event.preventDefault();
    addEventListener("beforeunload", stay);
    const free = beforeLeaving(() => {
      const leaves = !unsaved() || confirm(t("deploy.unsaved"));
      if (leaves) dropDraft(id);
      return leaves;
    });
    return () => {
      removeEventListener("beforeunload", stay);
      free();
    };
  }, [first]);
}

/**
 * @param {{
 *   document: any,
 *   service?: Service,
 *   first: { current: string },
 *   setBusy: (busy: boolean) => void,
 *   setRefusals: (problems: Problem[]) => void,
 * }} work
 */
async function save({ document, service, first, setBusy, setRefusals }) {
  setBusy(true);
  try {
    const made = service ? await api.replace(service, document) : await api.create(document);
    first.current = ""; // saved: nothing is lost by leaving
    notify(t(service ? "deploy.saved" : "deploy.created", { name: made.metadata.name }));
    go(to("services", made.metadata.namespace, made.metadata.name));
  } catch (error) {
    if (error instanceof ApiError) setRefusals(error.fields);
    complain(new Error(inWords(sentenceOf(error))));
  } finally {
    setBusy(false);
  }
}

/** @param {{ text: string, reading: import("../form/document.js").Reading, onInputText: (text: string) => void }} props */
function Yaml({ text, reading, onInputText }) {
  const lines = text.split("\n").length;
  return html`<section class="panel yaml">
    <h2><label for="yaml">YAML</label><small>${t("deploy.yaml_hint")}</small></h2>
    <textarea id="yaml" class="mono" rows=${Math.min(30, Math.max(12, lines + 1))} value=${text}
      spellcheck=${false} autocapitalize="off" autocomplete="off" wrap="off"
      aria-invalid=${reading.line ? "true" : undefined} aria-describedby="yaml-problem" onInput=${typed(onInputText)} />
    <p id="yaml-problem" class="problem" role="alert">
      ${reading.line ? t("deploy.yaml_bad", { line: reading.line, problem: reading.problem }) : ""}</p>
  </section>`;
}
