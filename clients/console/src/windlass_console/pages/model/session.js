// Who is signed in, in which namespace they look, and what they may do there.

import { api, ApiError, whenSignedOut } from "./api.js";
import { forgetDrafts } from "./drafts.js";
import { forgetLicenses } from "./licenses.js";
import { keep, kept, store, useStore } from "./store.js";
import { useEffect, useState } from "../vendor/preact.js";

/** @import { Rights, Session } from "../../../../types/api" */

/** @typedef {{ state: "loading" | "out" | "in" | "ended" | "broken", session?: Session, error?: unknown }} Signed */

export const ALL = "*";
const LISTED_AT_ONCE = 50; // namespaces in one list where each is asked for by itself: LISTS_MAX of the back end
/** @type {import("./store.js").Store<Signed>} */
export const signed = store(/** @type {Signed} */ ({ state: "loading" }));
/** The namespace that the lists show; "*" is all of them. */
export const chosenNamespace = store("");

whenSignedOut(() => {
  if (signed.get().state !== "in") return;
  forgetAnswers();
  signed.set({ state: "ended" });
});

/** What the back end answered to one user is not the next one's. */
function forgetAnswers() {
  rights.clear();
  forgetLicenses();
}

/** Whether one list of several namespaces is offered. @param {Session} session */
export const offersAll = (session) => session.allNamespaces || session.namespaces.length > 1;

/**
 * How many namespaces the list of all leaves out: more than so many are not listed one by one.
 * @param {Session} session
 */
export const leftOut = (session) => (session.allNamespaces ? 0 : Math.max(0, session.namespaces.length - LISTED_AT_ONCE));

/** @param {Session} session */
export function startSession(session) {
  const wanted = kept("namespace", "");
  const names = session.namespaces.map((one) => one.name);
  const possible = wanted === ALL ? offersAll(session) : names.includes(wanted) || !session.namespacesComplete;
  const first = session.allNamespaces ? ALL : session.defaultNamespace || names[0] || "default";
  chosenNamespace.set(wanted && possible ? wanted : first);
  forgetAnswers();
  signed.set({ state: "in", session });
}

export async function loadSession() {
  try {
    startSession(await api.session());
  } catch (error) {
    const out = error instanceof ApiError && error.status === 401;
    signed.set({ state: out ? "out" : "broken", error });
  }
}

export async function signOut() {
  await api.signOut();
  forgetAnswers();
  forgetDrafts();
  signed.set({ state: "out" });
}

/** @param {string} namespace */
export function chooseNamespace(namespace) {
  keep("namespace", namespace);
  chosenNamespace.set(namespace);
}

/** @type {Map<string, Promise<Rights>>} */
const rights = new Map();
const RIGHTS_MS = 60_000;

/** @param {string} namespace */
function rightsIn(namespace) {
  const held = rights.get(namespace);
  if (held) return held;
  const answer = api.permissions(namespace).then(({ can }) => can);
  rights.set(namespace, answer);
  const forget = () => rights.get(namespace) === answer && rights.delete(namespace);
  answer.catch(forget);
  setTimeout(forget, RIGHTS_MS);
  return answer;
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
