// The license servers as they answered last. They are asked at sign-in, so that the menu and the page know at once.

import { api } from "./api.js";
import { store } from "./store.js";

/** @import { Licenses } from "../../../../types/api" */

/** @type {import("./store.js").Store<{ value?: Licenses, error?: unknown }>} */
export const licenses = store({});

export async function loadLicenses() {
  try {
    licenses.set({ value: await api.licenses() });
  } catch (error) {
    licenses.set({ value: licenses.get().value, error });
  }
}

/** What one user was shown is not the next one's. */
export const forgetLicenses = () => licenses.set({});

/** Whether no license server could be asked. @param {Licenses | undefined} answer */
export const isUnreachable = (answer) => Boolean(answer?.servers.length && answer.servers.every((one) => one.problem));
