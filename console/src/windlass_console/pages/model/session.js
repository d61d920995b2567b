// Who is signed in, in which namespace they look, and what they may do there.

import { api, ApiError, whenSignedOut } from "./api.js";
import { keep, kept, store, useStore } from "./store.js";
import { useEffect, useState } from "../vendor/preact.js";

/** @import { Rights, Session } from "../../../../types/api" */

/** @typedef {{ state: "asking" | "out" | "in" | "broken", session?: Session, error?: unknown }} Signed */

export const ALL = "*";
/** @type {import("./store.js").Store<Signed>} */
export const signed = store(/** @type {Signed} */ ({ state: "asking" }));
/** The namespace that the lists show; "*" is all of them. */
export const place = store("");

whenSignedOut(() => signed.get().state === "in" && signed.set({ state: "out" }));

/** @param {Session} session */
export function begin(session) {
  const wanted = kept("namespace", "");
  const names = session.namespaces.map((one) => one.name);
  const possible = wanted === ALL ? session.allNamespaces : names.includes(wanted) || !session.namespacesComplete;
  const first = session.allNamespaces ? ALL : session.defaultNamespace || names[0] || "default";
  place.set(wanted && possible ? wanted : first);
  signed.set({ state: "in", session });
}

export async function ask() {
  try {
    begin(await api.session());
  } catch (error) {
    const out = error instanceof ApiError && error.status === 401;
    signed.set({ state: out ? "out" : "broken", error });
  }
}

export async function signOut() {
  await api.signOut();
  rights.clear();
  signed.set({ state: "out" });
}

/** @param {string} namespace */
export function choosePlace(namespace) {
  keep("namespace", namespace);
  place.set(namespace);
}

/** @type {Map<string, Promise<Rights>>} */
const rights = new Map();
const RIGHTS_MS = 60_000;

/** @param {string} namespace */
function rightsIn(namespace) {
  const held = rights.get(namespace);
  if (held) return held;
  const asked = api.permissions(namespace).then((answer) => answer.can);
  rights.set(namespace, asked);
  const forget = () => rights.get(namespace) === asked && rights.delete(namespace);
  asked.catch(forget);
  setTimeout(forget, RIGHTS_MS);
  return asked;
}

/**
 * What the user may do in a namespace; nothing is offered until the answer is there.
 * @param {string} namespace
 * @returns {Rights}
 */
export function useRights(namespace) {
  const [can, setCan] = useState(/** @type {Rights} */ ({}));
  useEffect(() => {
    let mine = true;
    rightsIn(namespace).then(
      (answer) => mine && setCan(answer),
      () => mine && setCan({}),
    );
    return () => {
      mine = false;
    };
  }, [namespace]);
  return can;
}

export const useSession = () => /** @type {Session} */ (useStore(signed).session);
