// Forms that are not saved yet. The end of a session takes the page away, and what was typed stays in memory for its user.

/** @import { Service } from "../../../../types/api" */

/**
 * @typedef {object} Draft
 * @property {string} user who typed it; nobody else gets it
 * @property {string} text the YAML
 * @property {unknown} config the model's config.json, if one was given
 * @property {Service} [service] the service as it was when its edit began
 */

/** @type {Map<string, Draft>} */
const drafts = new Map();

/**
 * @param {string} form
 * @param {Draft} draft
 */
export const keepDraft = (form, draft) => drafts.set(form, draft);

/** @param {string} form */
export const dropDraft = (form) => drafts.delete(form);

/**
 * @param {string} form
 * @param {string} user
 */
export const draftOf = (form, user) => {
  const found = drafts.get(form);
  return found?.user === user ? found : undefined;
};

export const forgetDrafts = () => drafts.clear();
