// The plan beside the form: what is still needed, what is refused and why, or what would be planned.

import { html, useState } from "../vendor/preact.js";
import { Loading, Trouble } from "../parts/controls.js";
import { Offered, PlanView, Prediction, SettingsTable } from "../parts/plan.js";
import { Icon } from "../parts/icons.js";
import { t } from "../text/index.js";
import { pathText } from "./schema.js";
import { showField } from "./field_focus.js";
import { inWords, nameInWords } from "./labels.js";
import { typed } from "../parts/typed.js";

/** @import { PlanAnswer, Preview } from "../../../../types/api" */
/** @import { Path } from "./schema.js" */
/** @import { Planning } from "./planning.js" */

/**
 * @param {{
 *   planning: Planning,
 *   needed: Path[],
 *   yamlProblem: string,
 *   config: unknown,
 *   onConfig: (config: unknown) => void,
 *   onUse: (field: string, value: string) => void,
 * }} props
 */
export function PlanPanel({ planning, needed, yamlProblem, config, onConfig, onUse }) {
  const { answer, error, pending } = planning;
  return html`<section class="panel plan" aria-labelledby="plan-title" aria-busy=${pending ? "true" : "false"}>
    <h2 id="plan-title">${t("plan.title")} <${Verdict} answer=${answer} /></h2>
    <div class="unseen" aria-live="polite">${verdictText(answer)}</div>
    ${yamlProblem && html`<p class="hint">${t("plan.yaml_first")}</p>`}
    ${!yamlProblem && needed.length > 0 && html`<${Needed} needed=${needed} />`}
    ${error && html`<${Trouble} error=${error} />`}
    ${answer && html`<${Answer} answer=${answer} config=${config} onConfig=${onConfig} onUse=${onUse} />`}
    ${pending && !answer && !error && html`<${Loading} />`}
  </section>`;
}

/** @param {PlanAnswer | null} answer */
function verdictText(answer) {
  if (!answer) return "";
  if (answer.refused || answer.problems.length) return t("plan.refused");
  if (!answer.preview) return "";
  return answer.preview.fits ? t("plan.fits") : t("plan.fits_not");
}

/** @param {{ answer: PlanAnswer | null }} props */
function Verdict({ answer }) {
  const text = verdictText(answer);
  if (!text) return null;
  const good = answer?.preview?.fits && !answer.refused && !answer.problems.length;
  return html`<span class=${`status ${good ? "good" : "bad"}`}><i aria-hidden="true"></i>${text}</span>`;
}

/** @param {{ needed: Path[] }} props */
const Needed = ({ needed }) =>
  html`<p class="hint">${t("plan.needed")}</p><ul class="needed">${needed.map(
    (path) => html`<li key=${pathText(path)}><button type="button" class="quiet"
      onClick=${() => showField(pathText(path))}>${nameInWords(path)}</button></li>`,
  )}</ul>`;

/** @param {{ answer: PlanAnswer, config: unknown, onConfig: (config: unknown) => void, onUse: (field: string, value: string) => void }} props */
function Answer({ answer, config, onConfig, onUse }) {
  const { preview, problems, refused, noFacts, noPlan } = answer;
  return html`
    ${(problems.length > 0 || refused) && html`<${Refused} problems=${problems} sentence=${refused} />`}
    ${noPlan && html`<p class="hint">${noPlan}</p>`}
    ${preview && !preview.fits && html`<${Unfit} preview=${preview} onUse=${onUse} />`}
    ${preview?.plan && html`<${PlanView} plan=${preview.plan} onUse=${onUse} />`}
    ${preview?.plan && html`<${SettingsTable} rows=${preview.settings} />`}
    ${preview?.plan && html`<${Prediction} prediction=${preview.prediction} />`}
    ${preview && html`<${Offered} gpus=${preview.gpus} />`}
    ${(noFacts || Boolean(config)) && html`<${ConfigBox} sentence=${noFacts} config=${config} onConfig=${onConfig} />`}
  `;
}

/** @param {{ problems: PlanAnswer["problems"], sentence: string }} props */
const Refused = ({ problems, sentence }) =>
  html`<div class="trouble"><${Icon} name="warn" /><div class="stack">
    ${
      problems.length
        ? problems.map(
            (one) => html`<p key=${one.field + one.message}>${inWords(one.message)} ${one.field && html`<button type="button"
              class="quiet inline" onClick=${() => showField(one.field)}>${t("plan.show_field")}</button>`}</p>`,
          )
        : html`<p>${inWords(sentence)}</p>`
    }
  </div></div>`;

/** @param {{ preview: Preview, onUse: (field: string, value: string) => void }} props */
function Unfit({ preview, onUse }) {
  const remedies = preview.remedy.replace(/^in this order: /, "").split("; ").filter(Boolean);
  return html`<div class="trouble"><${Icon} name="warn" /><p>${preview.message}</p></div>
    ${remedies.length > 0 && html`<h3>${t("plan.remedies")}</h3><ol class="remedies">
      ${remedies.map((line) => html`<${Remedy} key=${line} line=${line} onUse=${onUse} />`)}</ol>`}`;
}

/** @param {{ line: string, onUse: (field: string, value: string) => void }} props */
function Remedy({ line, onUse }) {
  const found = /^engine\.(\w+) (\S+): /.exec(line);
  return html`<li><span>${line}</span>${found && html`<button type="button" class="quiet"
    aria-label=${`${t("plan.use")}: ${found[1]} ${found[2]}`} onClick=${() => onUse(found[1], found[2])}>
    ${t("plan.use")}</button>`}</li>`;
}

/**
 * Where nothing is known of the model yet, its config.json can be given.
 * @param {{ sentence: string, config: unknown, onConfig: (config: unknown) => void }} props
 */
function ConfigBox({ sentence, config, onConfig }) {
  const [problem, setProblem] = useState("");
  const take = (/** @type {string} */ text) => {
    try {
      const read = text.trim() ? JSON.parse(text) : null;
      setProblem("");
      onConfig(read);
    } catch {
      setProblem(t("plan.config_bad"));
    }
  };
  const file = async (/** @type {any} */ event) => take((await event.target.files?.[0]?.text()) ?? "");
  return html`<div class="config stack">
    ${sentence && html`<p class="hint">${sentence}</p>`}
    ${config ? html`<p class="row"><span>${t("plan.config_given")}</span><button type="button" class="quiet"
      onClick=${() => onConfig(null)}>${t("plan.config_drop")}</button></p>` : null}
    <label class="field"><span>${t("plan.config")}</span>
      <textarea class="mono" rows="3" placeholder='{"architectures": ["Qwen2ForCausalLM"], …}' spellcheck=${false}
        onInput=${typed(take)} aria-describedby="config-problem"></textarea></label>
    <label class="field"><span>${t("plan.config_file")}</span><input type="file" accept=".json,application/json"
      onChange=${file} /></label>
    <p class="problem" id="config-problem" role="alert">${problem}</p>
  </div>`;
}
