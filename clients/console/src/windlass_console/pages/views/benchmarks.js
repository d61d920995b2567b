// Benchmark runs of services: the Jobs that are there, their results, and a new one.

import { html, useEffect, useState } from "../vendor/preact.js";
import { api } from "../model/api.js";
import { listStream } from "../model/api.js";
import { follow } from "../model/stream.js";
import { ALL, chosenNamespace, useRights, useSession } from "../model/session.js";
import { age } from "../model/figures.js";
import { useStore } from "../model/store.js";
import { complain, notify, sentenceOf } from "../parts/feedback.js";
import { Empty, Loading, Status, Trouble, useAnswer, useNow, Wide } from "../parts/controls.js";
import { Dialog } from "../parts/dialog.js";
import { Icon } from "../parts/icons.js";
import { moment, t, tOr } from "../text/index.js";

/** @import { Bench, Row, Rows, State } from "../../../../types/api" */

/** @type {Record<Bench["state"], State>} */
const STATES = { waiting: "wait", running: "wait", done: "good", failed: "bad" };

export function BenchmarksPage() {
  const session = useSession();
  const chosen = useStore(chosenNamespace);
  const namespace = chosen === ALL ? session.defaultNamespace || session.namespaces[0]?.name || "default" : chosen;
  const can = useRights(namespace);
  const { value, error, again } = useAnswer(() => api.benchmarks(namespace), [namespace], 10_000);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    document.title = `${t("nav.benchmarks")} · Windlass`;
  });
  return html`<section class="page"><header class="top"><h1>${t("nav.benchmarks")}</h1><span class="faint">
    ${namespace}</span>
      ${can.bench && html`<button type="button" class="strong" onClick=${() => setOpen(true)}><${Icon} name="plus" />
        ${t("bench.new")}</button>`}</header>
    ${error && html`<${Trouble} error=${error} onRetry=${again} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && !value.items.length && html`<${Empty} title=${t("bench.none")}><p>${t("bench.none_text")}</p>
      </${Empty}>`}
    <div class="stack">${value?.items.map((one) => html`<${Run} key=${one.name} bench=${one} may=${can.bench}
      onDone=${again} />`)}</div>
    ${open && html`<${Start} namespace=${namespace} onClose=${() => setOpen(false)} onDone=${again} />`}
  </section>`;
}

/** @param {{ bench: Bench, may: boolean | undefined, onDone: () => void }} props */
function Run({ bench, may, onDone }) {
  const now = useNow();
  const [open, setOpen] = useState(false);
  const drop = () => api.removeBenchmark(bench.namespace, bench.name).then(onDone, complain);
  return html`<section class="panel stack">
    <div class="top"><h2>${bench.service}</h2>
      <${Status} state=${STATES[bench.state]} text=${tOr(`bench.state.${bench.state}`, bench.state)} /><small class="faint"
      title=${moment(bench.started)}>${t("bench.ago", { age: age(bench.started, now) })}</small>
      <span class="row end"><button type="button" class="plain" aria-expanded=${open ? "true" : "false"}
        onClick=${() => setOpen(!open)}>${t("bench.results")}</button>
      ${may && html`<button type="button" class="danger" onClick=${drop}><${Icon} name="trash" />${t("action.delete")}
        </button>`}</span></div>
    <p class="hint mono wrap">${bench.command.join(" ")}</p>
    ${bench.message && html`<p class="hint">${bench.message}</p>`}
    ${open && html`<${Results} bench=${bench} />`}
  </section>`;
}

/** @param {{ bench: Bench }} props */
function Results({ bench }) {
  const { namespace, name, state } = bench;
  const read = () => api.benchmark(namespace, name);
  const { value, error } = useAnswer(read, [namespace, name, state], state === "running" ? 5000 : 0);
  if (error) return html`<${Trouble} error=${error} />`;
  if (!value) return html`<${Loading} />`;
  const columns = Object.keys(value.rows?.[0] ?? {});
  const tail = Array.isArray(value.tail) ? value.tail.join("\n") : value.tail;
  return html`${columns.length > 0 && html`<${Wide} label=${t("bench.results")}><table><thead><tr>${columns.map((name) => html`<th key=${name}>${name}</th>`)}
    </tr></thead><tbody>${value.rows?.map((row, index) => html`<tr key=${index}>${columns.map((name) => html`<td
    key=${name}>${row[name]}</td>`)}</tr>`)}</tbody></table></${Wide}>`}
    ${tail && !columns.length && html`<pre class="excerpt" tabindex="0" role="region" aria-label=${t("tab.logs")}>
      ${tail}</pre>`}`;
}

/** @param {string} namespace */
function useRunning(namespace) {
  const [rows, setRows] = useState(/** @type {Row[]} */ ([]));
  useEffect(() => {
    const end = follow(listStream(namespace), {
      last: ["ROWS"],
      on: { ROWS: (/** @type {Rows} */ change) => setRows(change.upserted.filter((row) => row.state === "good")) },
    });
    return end;
  }, [namespace]);
  return rows;
}

/** @param {{ namespace: string, onClose: () => void, onDone: () => void }} props */
function Start({ namespace, onClose, onDone }) {
  const rows = useRunning(namespace);
  const [draft, setDraft] = useState({ service: "", concurrency: "1,10", prompts: "100" });
  const [problem, setProblem] = useState("");
  const put = (/** @type {string} */ name) => (/** @type {any} */ event) => setDraft({ ...draft, [name]: event.target.value });
  const send = async () => {
    const concurrency = draft.concurrency.split(",").map((one) => Number(one.trim()));
    if (!draft.service) return setProblem(t("bench.no_service"));
    if (!concurrency.every((one) => Number.isInteger(one) && one > 0)) return setProblem(t("bench.bad_concurrency"));
    try {
      const made = await api.startBenchmark(namespace, draft.service, { concurrency, prompts: Number(draft.prompts) || 100 });
      notify(t("bench.started", { name: made.name }));
      onDone();
      onClose();
    } catch (error) {
      setProblem(sentenceOf(error));
    }
  };
  return html`<${Dialog} title=${t("bench.new")} onClose=${onClose} onSubmit=${send}>
    <label class="field"><span>${t("bench.service")}</span><select value=${draft.service} onChange=${put("service")}>
      <option value="">${t("form.choose")}</option>${rows.map((row) => html`<option key=${row.name} value=${row.name}>
      ${row.name}</option>`)}</select></label>
    <label class="field"><span>${t("bench.concurrency")}</span><input value=${draft.concurrency}
      onInput=${put("concurrency")} /><small class="hint">${t("bench.concurrency_hint")}</small></label>
    <label class="field"><span>${t("bench.prompts")}</span><input inputmode="numeric" value=${draft.prompts}
      onInput=${put("prompts")} /></label>
    <p class="problem" role="alert">${problem}</p>
    <div class="row end"><button type="button" class="plain" onClick=${onClose}>${t("do.cancel")}</button><button
      type="submit" class="strong">${t("bench.start")}</button></div>
  </${Dialog}>`;
}
