// The form is the CRD's schema: what kind of field each node is, and what is wrong with a value. Pure.

/** @import { Schema } from "../../../../types/api" */

/** @typedef {(string | number)[]} Path */
/** @typedef {`form.${"bad_number" | "too_small" | "too_large" | "too_long" | "bad_pattern"}`} Complaint */
/** @typedef {"choice" | "switch" | "number" | "quantity" | "text" | "texts" | "rows" | "map" | "one" | "group"} Kind */

const OLDER = /is the older form of/;
const EXACTLY_ONE = /exactly one of/;

/**
 * @param {Schema} schema
 * @returns {Kind}
 */
export function kindOf(schema) {
  if (schema.enum) return "choice";
  if (schema.anyOf) return "quantity";
  if (schema.type === "boolean") return "switch";
  if (schema.type === "integer") return "number";
  if (schema.type === "array") return schema.items?.type === "object" ? "rows" : "texts";
  if (schema.type !== "object") return "text";
  if (!schema.properties) return "map";
  return isOneOf(schema) ? "one" : "group";
}

/** An object of which exactly one member stands, such as a source. @param {Schema} schema */
const isOneOf = (schema) =>
  Object.keys(schema.properties ?? {}).length > 1 &&
  Object.values(schema.properties ?? {}).every((member) => member.type === "object") &&
  (schema["x-kubernetes-validations"] ?? []).some((rule) => EXACTLY_ONE.test(rule.message ?? ""));

/** The members that a form shows: an older form of a field only where it is set.
 * @param {Schema} schema
 * @param {any} value
 * @returns {[string, Schema][]}
 */
export const members = (schema, value) =>
  Object.entries(schema.properties ?? {}).filter(
    ([name, member]) => !OLDER.test(member.description ?? "") || value?.[name] !== undefined,
  );

/**
 * The schema at a path; undefined where there is none.
 * @param {Schema | undefined} schema
 * @param {Path} path
 * @returns {Schema | undefined}
 */
export function at(schema, path) {
  let here = schema;
  for (const part of path) {
    if (!here) return undefined;
    if (typeof part === "number") here = here.items;
    else here = here.properties?.[part] ?? (typeof here.additionalProperties === "object" ? here.additionalProperties : undefined);
  }
  return here;
}

/** The description without the field's own name in front: "is the number of GPUs of a replica". @param {Schema} schema */
export const hintOf = (schema) => (schema.description ?? "").replace(/^\S+ (is|are) /, "");

/**
 * How a path is written in the API server's sentences: spec.env[0].name.
 * @param {Path} path
 */
export const pathText = (path) =>
  path.reduce((/** @type {string} */ text, part) => (typeof part === "number" ? `${text}[${part}]` : text ? `${text}.${part}` : part), "");

/**
 * What a form may say of a value before the API server does: a key of the texts, and its figures.
 * @param {Schema} schema
 * @param {unknown} value
 * @returns {{ key: Complaint, values: Record<string, string | number> } | null}
 */
export function wrong(schema, value) {
  if (value === undefined || value === null || value === "") return null;
  if (schema.type === "integer") {
    if (!Number.isInteger(value)) return { key: "form.bad_number", values: {} };
    const number = /** @type {number} */ (value);
    if (schema.minimum !== undefined && number < schema.minimum) return { key: "form.too_small", values: { least: schema.minimum } };
    if (schema.maximum !== undefined && number > schema.maximum) return { key: "form.too_large", values: { most: schema.maximum } };
    return null;
  }
  if (typeof value !== "string") return null;
  if (schema.maxLength !== undefined && value.length > schema.maxLength) return { key: "form.too_long", values: { most: schema.maxLength } };
  const patterns = schema.pattern ? [schema.pattern] : (schema.anyOf ?? []).flatMap((one) => one.pattern ?? []);
  if (!patterns.length || patterns.some((pattern) => new RegExp(pattern, "u").test(value))) return null;
  return { key: "form.bad_pattern", values: { pattern: patterns[0] } };
}

/**
 * Every field below a schema with its path, for the search: groups and lists too, but nothing below a list.
 * @param {Schema} schema
 * @param {Path} [path]
 * @returns {{ path: Path, schema: Schema }[]}
 */
export function everyField(schema, path = []) {
  return Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const here = [...path, name];
    const below = kindOf(member) === "group" ? everyField(member, here) : [];
    return [{ path: here, schema: member }, ...below];
  });
}
