// A value that components follow. No component holds what another one needs.

import { useEffect, useReducer } from "../vendor/preact.js";

/**
 * @template T
 * @typedef {{ get: () => T, set: (next: T) => void, follow: (listener: () => void) => () => void }} Store
 */

/**
 * @template T
 * @param {T} first
 * @returns {Store<T>}
 */
export function store(first) {
  let value = first;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    follow(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * The store's value; the component is drawn again at every change.
 * @template T
 * @param {Store<T>} from
 * @returns {T}
 */
export function useStore(from) {
  const [, again] = useReducer((/** @type {number} */ count) => count + 1, 0);
  const seen = from.get();
  useEffect(() => {
    if (from.get() !== seen) again(undefined);
    return from.follow(() => again(undefined));
  }, [from]);
  return seen;
}

/**
 * What is kept in this browser: names and choices, never a secret.
 * @param {string} name
 * @param {string} fallback
 */
export function kept(name, fallback) {
  try {
    return localStorage.getItem(`windlass.${name}`) ?? fallback;
  } catch {
    return fallback;
  }
}

/**
 * @param {string} name
 * @param {string} value
 */
export function keep(name, value) {
  try {
    localStorage.setItem(`windlass.${name}`, value);
  } catch {
    // storage is switched off: the choice lasts as long as the page
  }
}
