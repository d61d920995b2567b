// Leads from a sentence to its field: to the simple one, else to the one behind "All fields", which opens for it.

import { store } from "../model/store.js";

/** The path of a field that is not drawn yet; the part with all fields opens for it. */
export const wantedField = store("");

/** @param {string} field as the API server writes it */
export function showField(field) {
  const found = document.querySelector(`[data-path="${CSS.escape(field)}"]`);
  if (!(found instanceof HTMLElement)) {
    wantedField.set(field);
    return;
  }
  wantedField.set("");
  found.scrollIntoView({ block: "center" });
  found.focus();
}
