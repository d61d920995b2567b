// The YAML text is the only state of the form. A field writes one path of it, and comments stay where they are. Pure.

import { Document, isCollection, LineCounter, parseDocument } from "../vendor/yaml.js";

/** @import { Path } from "./schema.js" */

const WRITTEN = { lineWidth: 0, nullStr: "" };
const KEPT = 2; // levels that stay though empty: spec, and metadata

/**
 * @typedef {object} Reading
 * @property {any} value the document as an object; the last good one where the text is no YAML
 * @property {string} problem
 * @property {number} line of the problem; 0 for none
 */

/**
 * @param {string} text
 * @param {any} before the last good value
 * @returns {Reading}
 */
export function read(text, before = {}) {
  const lines = new LineCounter();
  const parsed = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = parsed.errors;
  if (error) return { value: before, problem: error.message, line: lines.linePos(error.pos[0]).line };
  try {
    const value = parsed.toJS({ maxAliasCount: 100 });
    if (value === null || typeof value !== "object" || Array.isArray(value)) return { value: before, problem: "", line: 1 };
    return { value, problem: "", line: 0 };
  } catch (failed) {
    return { value: before, problem: failed instanceof Error ? failed.message : String(failed), line: 1 };
  }
}

/**
 * The text with another value at a path; undefined takes the field out, and the groups that it leaves empty.
 * @param {string} text
 * @param {Path} path
 * @param {unknown} value
 * @returns {string}
 */
export function write(text, path, value) {
  const parsed = parseDocument(text);
  if (parsed.errors.length) return text;
  if (value === undefined) remove(parsed, path);
  else put(parsed, path, value);
  return parsed.toString(WRITTEN);
}

/**
 * @param {import("../vendor/yaml.js").Document} parsed
 * @param {Path} path
 * @param {unknown} value
 */
function put(parsed, path, value) {
  for (let depth = 1; depth < path.length; depth++) {
    const above = path.slice(0, depth);
    if (isCollection(parsed.getIn(above, true))) continue;
    parsed.setIn(above, parsed.createNode(typeof path[depth] === "number" ? [] : {}));
  }
  parsed.setIn(path, parsed.createNode(value));
}

/**
 * @param {import("../vendor/yaml.js").Document} parsed
 * @param {Path} path
 */
function remove(parsed, path) {
  if (!parsed.hasIn(path)) return;
  parsed.deleteIn(path);
  for (let depth = path.length - 1; depth >= KEPT; depth--) {
    const above = parsed.getIn(path.slice(0, depth), true);
    if (!isCollection(above) || above.items.length) return;
    if (typeof path[depth - 1] === "number") return; // a row stays until it is taken out itself
    parsed.deleteIn(path.slice(0, depth));
  }
}

/**
 * @param {any} value
 * @param {Path} path
 * @returns {any}
 */
export function valueAt(value, path) {
  let here = value;
  for (const part of path) here = here?.[part];
  return here;
}

/**
 * The document that a new service begins with.
 * @param {string} namespace
 */
export const fresh = (namespace) => `apiVersion: serving.windlass.dev/v1alpha1
kind: LLMService
metadata:
  name: ""
  namespace: ${namespace}
spec:
  model:
    id: ""
    source:
      pvc:
        claimName: ""
`;

/**
 * An existing service as it is edited: what the API server adds is left out.
 * @param {any} service
 * @returns {string}
 */
export function editable(service) {
  const { name, namespace, labels, annotations } = service.metadata;
  const metadata = { name, namespace, ...(labels ? { labels } : {}), ...(annotations ? { annotations } : {}) };
  return new Document({ apiVersion: service.apiVersion, kind: service.kind, metadata, spec: service.spec }).toString(WRITTEN);
}
