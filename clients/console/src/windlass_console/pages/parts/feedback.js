// What the page says by itself: short notes that go away, and a live region for who does not see the screen.

import { store, useStore } from "../model/store.js";
import { html } from "../vendor/preact.js";
import { t } from "../text/index.js";
import { Icon } from "./icons.js";

const NOTE_MS = 6000;

/** @typedef {{ id: number, text: string, kind: "good" | "bad" }} Note */

/** @type {import("../model/store.js").Store<Note[]>} */
const notes = store(/** @type {Note[]} */ ([]));
const announcement = store("");
let last = 0;

/**
 * @param {string} text
 * @param {Note["kind"]} [kind] a bad note stays until it is closed
 */
export function notify(text, kind = "good") {
  const note = { id: ++last, text, kind };
  notes.set([...notes.get().slice(-2), note]);
  if (kind === "good") setTimeout(() => dismiss(note.id), NOTE_MS);
}

/** @param {number} id */
const dismiss = (id) => notes.set(notes.get().filter((note) => note.id !== id));

/** @param {string} text said politely, not shown */
export function announce(text) {
  announcement.set(text);
}

/** The error's sentence, in the user's language where it is ours.
 * @param {unknown} error */
export function sentenceOf(error) {
  if (error instanceof Error && "reason" in error && error.reason === "Offline") return t("error.offline");
  return error instanceof Error ? error.message : String(error);
}

/** @param {unknown} error */
export const complain = (error) => notify(sentenceOf(error), "bad");

export function Feedback() {
  const shown = useStore(notes);
  return html`
    <div class="unseen" role="status" aria-live="polite">${useStore(announcement)}</div>
    <div class="notes" role="log" aria-label=${t("a11y.notes")}>
      ${shown.map(
        (note) => html`<div key=${note.id} class=${`note ${note.kind}`}>
          <span>${note.text}</span>
          <button type="button" class="quiet square" aria-label=${t("do.close")} onClick=${() => dismiss(note.id)}>
            <${Icon} name="close" />
          </button>
        </div>`,
      )}
    </div>
  `;
}
