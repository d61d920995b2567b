// Asks for the plan while one types: one question at a time, the newest, after a short rest of the keys.

import { useEffect, useState } from "../vendor/preact.js";
import { api } from "../model/api.js";
import { kindOf } from "./schema.js";

/** @import { KnownModel, PlanAnswer, Schema } from "../../../../types/api" */
/** @import { Path } from "./schema.js" */

const REST_MS = 350;

/**
 * The required fields that are empty.
 * @param {Schema | undefined} schema
 * @param {any} value
 * @param {Path} [path]
 * @returns {Path[]}
 */
export function missing(schema, value, path = []) {
  if (!schema?.properties) return [];
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties).flatMap(([name, member]) => {
    const one = value?.[name];
    const here = [...path, name];
    if (one === undefined || one === null || one === "") return required.has(name) ? [here] : [];
    const kind = kindOf(member);
    if (kind === "group") return missing(member, one, here);
    if (kind === "one") return Object.keys(one).length ? missing(member, one, here) : [here];
    if (kind === "rows" && Array.isArray(one)) return one.flatMap((row, index) => missing(member.items, row, [...here, index]));
    return [];
  });
}

/**
 * The existing service whose model the document reads: its facts are known.
 * @param {any} document
 * @param {KnownModel[]} models
 */
export function likeness(document, models) {
  const wanted = ordered(document.spec?.model?.source);
  const namespace = document.metadata?.namespace;
  const found = models.find((one) => one.known && one.namespace === namespace && ordered(one.source) === wanted);
  return found ? { namespace: found.namespace, name: found.service } : null;
}

/** @param {any} value
 * @returns {string} */
const ordered = (value) =>
  JSON.stringify(value, (_, one) =>
    one && typeof one === "object" && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).filter(([, member]) => member !== "").sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );

/**
 * @typedef {object} Planning
 * @property {PlanAnswer | null} answer
 * @property {unknown} error
 * @property {boolean} pending
 */

/**
 * @param {any} document
 * @param {unknown} config
 * @param {unknown} like
 * @param {boolean} complete nothing is asked while required fields are empty
 * @returns {Planning}
 */
export function usePlan(document, config, like, complete) {
  const [state, setState] = useState(/** @type {Planning} */ ({ answer: null, error: null, pending: false }));
  const question = JSON.stringify({ namespace: document.metadata?.namespace, service: document, config, like });
  useEffect(() => {
    if (!complete) {
      setState({ answer: null, error: null, pending: false });
      return undefined;
    }
    const stop = new AbortController();
    setState((before) => ({ ...before, pending: true }));
    const timer = setTimeout(() => {
      api.plan(JSON.parse(question), stop.signal).then(
        (answer) => setState({ answer, error: null, pending: false }),
        (error) => stop.signal.aborted || setState({ answer: null, error, pending: false }),
      );
    }, REST_MS);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [question, complete]);
  return state;
}
