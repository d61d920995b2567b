// The words of the pages in the user's language. The tables have the same keys; a test holds them to it.

import { keep, store, useStore } from "../model/store.js";
import en from "./en.js";
import zh from "./zh.js";

/** @typedef {keyof typeof en} Key */

/** @type {Record<string, Record<string, string>>} */
const TABLES = { en, zh };
export const LANGUAGES = /** @type {const} */ ([
  ["en", "English"],
  ["zh", "中文"],
]);

export const language = store(document.documentElement.lang.startsWith("zh") ? "zh" : "en");

/** @param {string} next */
export function speak(next) {
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
  keep("language", next);
  language.set(next);
}

/**
 * The words for a key, with values in place of `{name}`; `{n|GPU|GPUs}` is the first for one, else the second.
 * @param {Key} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const words = TABLES[language.get()]?.[key] ?? en[key];
  const counted = words.replace(/\{(\w+)\|([^|}]*)\|([^}]*)\}/g, (_, name, one, more) => (Number(values[name]) === 1 ? one : more));
  return counted.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/**
 * The words for a key made from data, such as a reason; the fallback where no table has it.
 * @param {string} key
 * @param {string} fallback
 */
export const tOr = (key, fallback) => TABLES[language.get()]?.[key] ?? fallback;

export const useLanguage = () => useStore(language);

/** @param {string | undefined | null} instant RFC 3339 */
export function moment(instant) {
  const time = new Date(instant ?? "");
  if (Number.isNaN(time.getTime())) return "–";
  return new Intl.DateTimeFormat(language.get() === "zh" ? "zh-CN" : "en-GB", {
    dateStyle: "medium",
    timeStyle: "short",
  }).format(time);
}
