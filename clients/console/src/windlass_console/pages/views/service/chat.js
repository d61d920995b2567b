// A talk with the served model beside its figures. It is gone with the page; no key is stored.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { api, ApiError } from "../../model/api.js";
import { pieces, request } from "../../model/conversation.js";
import { short } from "../../model/figures.js";
import { announce, sentenceOf } from "../../parts/feedback.js";
import { useAnswer } from "../../parts/controls.js";
import { Icon } from "../../parts/icons.js";
import { t } from "../../text/index.js";
import { typed } from "../../parts/typed.js";

/** @import { Detail } from "../../../../../types/api" */
/** @import { Message } from "../../model/conversation.js" */

/**
 * @param {string} namespace
 * @param {string} name
 */
function useConversation(namespace, name) {
  const [messages, setMessages] = useState(/** @type {Message[]} */ ([]));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const change = (/** @type {Partial<Message>} */ part) =>
    setMessages((before) => [...before.slice(0, -1), { .../** @type {Message} */ (before.at(-1)), ...part }]);
  const send = async (/** @type {string} */ text, /** @type {string} */ model, /** @type {string} */ key) => {
    const asked = [...messages, /** @type {Message} */ ({ role: "user", text })];
    setMessages([...asked, { role: "assistant", text: "" }]);
    setBusy(true);
    running.current = new AbortController();
    try {
      const began = performance.now(); // the answer's head comes with its first token
      const answer = await api.chat(namespace, name, request(model, asked), key, running.current.signal);
      await stream(answer, began, change);
      announce(t("chat.done"));
    } catch (error) {
      const stopped = running.current.signal.aborted;
      change({ problem: stopped ? t("chat.stopped") : error instanceof ApiError && error.reason === "Service" ? error.message : sentenceOf(error) });
    } finally {
      setBusy(false);
    }
  };
  return { messages, busy, send, stop: () => running.current?.abort(), clear: () => setMessages([]) };
}

/**
 * @param {Response} answer
 * @param {number} began when the question was sent
 * @param {(part: Partial<Message>) => void} change
 */
async function stream(answer, began, change) {
  let text = "";
  let ttft = 0;
  for await (const piece of pieces(answer)) {
    if (piece.text && !ttft) ttft = performance.now() - began;
    text += piece.text;
    const seconds = (performance.now() - began) / 1000;
    change({ text, ttft, ...(piece.tokens ? { tokens: piece.tokens, seconds } : {}) });
  }
}

/** @param {Message} turn */
const measure = ({ tokens = 0, seconds = 1, ttft = 0 }) =>
  t("chat.measure", { tokens, rate: short(tokens / (seconds || 1)), ttft: Math.round(ttft) });

/** @param {{ namespace: string, name: string, detail: Detail }} props */
export function Chat({ namespace, name, detail }) {
  const call = useAnswer(() => api.call(namespace, name), [namespace, name]);
  const { messages, busy, send, stop, clear } = useConversation(namespace, name);
  const [draft, setDraft] = useState("");
  const [model, setModel] = useState("");
  const [key, setKey] = useState("");
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [messages]);
  const models = call.value?.models?.length ? call.value.models : [detail.row.model];
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!draft.trim() || busy) return;
    send(draft.trim(), model || models[0], key);
    setDraft("");
  };
  const keys = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && !event.shiftKey && !event.isComposing && submit(event);
  return html`<section class="chat" aria-label=${t("tab.chat")}>
    <div class="bar">
      <label>${t("call.model")} <select value=${model || models[0]} onChange=${typed(setModel)}>
        ${models.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      ${call.value?.keyed && html`<label>${t("call.key")} <input type="password" autocomplete="off" value=${key}
        onInput=${typed(setKey)} /></label>`}
      ${messages.length > 0 && html`<button type="button" class="quiet" onClick=${clear} disabled=${busy}>
        ${t("chat.clear")}</button>`}
    </div>
    <div class="talk" ref=${box} tabindex="0" role="log" aria-label=${t("chat.talk")}
      aria-busy=${busy ? "true" : "false"}>
      ${!messages.length && html`<p class="hint">${detail.row.state === "good" ? t("chat.begin") : t("chat.not_ready")}
        </p>`}
      ${messages.map((turn, index) => html`<div key=${index} class=${`turn ${turn.role}`}>
        ${turn.text || (turn.role === "assistant" && !turn.problem ? "…" : "")}${turn.problem && html`<p
        class="problem">${turn.problem}</p>`}${turn.tokens ? html`<span class="measure">
        ${measure(turn)}</span>` : null}</div>`)}
    </div>
    <form onSubmit=${submit}>
      <label><span class="unseen">${t("chat.question")}</span><textarea rows="2" value=${draft}
        placeholder=${t("chat.question")} onInput=${typed(setDraft)} onKeyDown=${keys} /></label>
      ${busy ? html`<button type="button" class="plain" onClick=${stop}><${Icon} name="stop" />${t("chat.stop")}
        </button>` : html`<button type="submit" class="strong" disabled=${!draft.trim()}><${Icon} name="send" />
        ${t("chat.send")}</button>`}
    </form>
  </section>`;
}
