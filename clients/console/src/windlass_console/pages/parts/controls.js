// Small pieces that every page uses.

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { store, useStore } from "../model/store.js";
import { t } from "../text/index.js";
import { notify, sentenceOf } from "./feedback.js";
import { Icon } from "./icons.js";

/** @import { State } from "../../../../types/api" */

const clock = store(Date.now());
setInterval(() => clock.set(Date.now()), 10_000);

/** Now in milliseconds, for ages; every ten seconds another. */
export const useNow = () => useStore(clock);

/** @param {{ state: State, text: string }} props */
export const Status = ({ state, text }) =>
  html`<span class=${`status ${state}`}><i aria-hidden="true"></i>
    ${text || t("state.unseen")}</span>`;

/** @param {{ error: unknown, onRetry?: () => void }} props */
export const Trouble = ({ error, onRetry }) =>
  html`<div class="trouble" role="alert">
    <${Icon} name="warn" />
    <p>${sentenceOf(error)}</p>
    ${onRetry && html`<button type="button" class="plain" onClick=${onRetry}>${t("do.retry")}</button>`}
  </div>`;

/** @param {{ title: string, children?: unknown }} props */
export const Empty = ({ title, children }) =>
  html`<div class="empty"><h2>${title}</h2>${children}</div>`;

export const Loading = () => html`<p class="loading" role="status">${t("state.loading")}</p>`;

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = t("do.copy") }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
      setTimeout(() => setDone(false), 1600);
    } catch {
      notify(t("error.copy"), "bad");
    }
  };
  return html`<button type="button" class="quiet copy" onClick=${copy}>
    <${Icon} name=${done ? "check" : "copy"} /><span aria-live="polite">${done ? t("do.copied") : label}</span>
  </button>`;
}

/** @param {{ text: string, label: string }} props a block of text that is to be copied */
export const Code = ({ text, label }) =>
  html`<div class="code"><${Copy} text=${text} /><pre tabindex="0" role="region" aria-label=${label}><code>${text}
    </code></pre></div>`;

/** What may be wider than its place, such as a table: it scrolls, also by the arrow keys.
 * @param {{ label: string, children?: unknown }} props */
export const Wide = ({ label, children }) =>
  html`<div class="over" tabindex="0" role="region" aria-label=${label}>${children}</div>`;

/**
 * What a promise gives: asked again whenever `keys` change or `again` is called.
 * @template T
 * @param {() => Promise<T>} ask
 * @param {unknown[]} keys
 * @param {number} [everyMs]
 * @returns {{ value: T | undefined, error: unknown, again: () => void }}
 */
export function useAnswer(ask, keys, everyMs = 0) {
  const [answer, setAnswer] = useState(/** @type {{ value?: T, error?: unknown }} */ ({}));
  const [round, setRound] = useState(0);
  useEffect(() => setAnswer({}), keys);
  useEffect(() => {
    let mine = true;
    const load = () =>
      ask().then(
        (value) => mine && setAnswer({ value }),
        (error) => mine && setAnswer((before) => ({ value: before.value, error })),
      );
    load();
    const timer = everyMs ? setInterval(() => document.visibilityState === "visible" && load(), everyMs) : undefined;
    return () => {
      mine = false;
      clearInterval(timer);
    };
  }, [...keys, round]);
  return { value: answer.value, error: answer.error, again: () => setRound(round + 1) };
}

/**
 * @param {{ tabs: [string, string][], chosen: string, hrefOf: (tab: string) => string, label: string }} props
 */
export function Tabs({ tabs, chosen, hrefOf, label }) {
  const bar = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    bar.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen]);
  return html`<nav class="tabs" aria-label=${label} ref=${bar}>
    ${tabs.map(
      ([id, name]) =>
        html`<a key=${id} href=${hrefOf(id)} aria-current=${id === chosen ? "page" : undefined}>${name}</a>`,
    )}
  </nav>`;
}
