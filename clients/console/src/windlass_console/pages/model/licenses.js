// The license servers as they answered last. They are asked at sign-in, so that the menu and the page know at once.

import { api } from "./api.js";
import { store } from "./store.js";

/** @import { Licenses } from "../../../../types/api" */

/** @type {import("./store.js").Store<{ value?: Licenses, error?: unknown }>} */
export const licenses = store({});

let turn = 0; // of users: an answer to one who has left is dropped

export async function loadLicenses() {
  const mine = turn;
  /** @param {{ value?: Licenses, error?: unknown }} answer */
  const show = (answer) => mine === turn && licenses.set(answer);
  try {
    show({ value: await api.licenses() });
  } catch (error) {
    show({ value: licenses.get().value, error });
  }
}

/** What one user was shown is not the next one's. */
export function forgetLicenses() {
  turn += 1;
  licenses.set({});
}

/** Whether no license server could be asked. @param {Licenses | undefined} answer */
export const isUnreachable = (answer) => Boolean(answer?.servers.length && answer.servers.every((one) => one.problem));
