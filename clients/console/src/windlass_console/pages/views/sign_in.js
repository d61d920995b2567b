// Signing in by a token; with OIDC the ingress in front has done it before this page is seen.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { api } from "../model/api.js";
import { startSession } from "../model/session.js";
import { sentenceOf } from "../parts/feedback.js";
import { Icon } from "../parts/icons.js";
import { t } from "../text/index.js";
import { Choices } from "../app.js";
import { Code } from "../parts/controls.js";

const COMMAND = "kubectl create token NAME -n NAMESPACE --duration=8h";

/** @param {{ ended: boolean }} props a session was there, and has ended */
export function SignIn({ ended }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [problem, setProblem] = useState(ended ? t("signin.ended") : "");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = `${t("signin.title")} · Windlass`;
    field.current?.focus();
  }, []);
  const enter = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (!token) return setProblem(t("signin.empty"));
    setBusy(true);
    try {
      startSession(await api.signIn(token));
    } catch (error) {
      setProblem(sentenceOf(error));
      field.current?.select();
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="alone signin">
    <form onSubmit=${enter}>
      <h1><${Icon} name="mark" /> Windlass</h1>
      <p class="lead">${t("signin.lead")}</p>
      <label class="field"><span>${t("signin.token")}</span>
        <input ref=${field} type="password" name="token" autocomplete="off" spellcheck=${false}
          aria-invalid=${problem ? "true" : undefined} aria-describedby="signin-problem" />
      </label>
      <p id="signin-problem" class="problem" role="alert">${problem}</p>
      <button type="submit" class="strong" disabled=${busy}>${t("signin.enter")}</button>
      <details><summary>${t("signin.how")}</summary>
        <p>${t("signin.how_text")}</p>
        <${Code} text=${COMMAND} label=${t("signin.how")} />
      </details>
      <p class="hint">${t("signin.safe")}</p>
    </form>
    <${Choices} />
  </main>`;
}
