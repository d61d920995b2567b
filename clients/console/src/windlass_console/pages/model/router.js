// Where the user is: the part of the address behind #, so that the console works below any path.

import { store } from "./store.js";

/** @typedef {{ parts: string[], query: URLSearchParams }} Route */

/** @returns {Route} */
function read() {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % that somebody typed
  }
}

export const route = store(read());

/** @type {(() => boolean) | null} */
let leaving = null;
let held = location.hash;

/**
 * Asks before the page is left with something unsaved; returns what takes the question back.
 * @param {() => boolean} mayLeave
 */
export function beforeLeaving(mayLeave) {
  leaving = mayLeave;
  return () => {
    if (leaving === mayLeave) leaving = null;
  };
}

addEventListener("hashchange", () => {
  if (location.hash === held) return;
  if (leaving && !leaving()) {
    history.replaceState(null, "", held || "#/services");
    return;
  }
  held = location.hash;
  leaving = null;
  route.set(read());
});

/**
 * The address of a place in the console.
 * @param {...string} parts
 */
export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

/** @param {string} address */
export function go(address) {
  location.hash = address;
}
