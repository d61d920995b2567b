// Server-sent events that outlive a cut connection: a stream begins with the whole state, so it may begin anew.

import { checkSession } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15000;

/**
 * @typedef {object} Listening
 * @property {Record<string, (data: any) => void>} on what to do with each kind of event
 * @property {(state: "live" | "waiting") => void} [state]
 * @property {(sentence: string, reason: string) => void} [failed] the server said that it cannot go on
 * @property {string[]} [last] kinds of events after which nothing more is read
 */

/**
 * Follow a stream until what is returned is called.
 * @param {string} path below api/
 * @param {Listening} listening
 */
export function follow(path, { on, state = () => {}, failed = () => {}, last = [] }) {
  /** @type {EventSource | undefined} */
  let source;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let wait = FIRST_WAIT_MS;
  let ended = false;

  const end = () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
  const again = () => {
    source?.close();
    if (ended) return;
    state("waiting");
    checkSession();
    timer = setTimeout(open, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  };
  const open = () => {
    source = new EventSource(`api/${path}`);
    source.onopen = () => {
      wait = FIRST_WAIT_MS;
      state("live");
    };
    source.onerror = again; // closed here, so that our own waits hold and not the browser's
    for (const [kind, act] of Object.entries(on)) {
      source.addEventListener(kind, (event) => {
        act(JSON.parse(event.data));
        if (last.includes(kind)) end();
      });
    }
    source.addEventListener("ERROR", (event) => {
      const { error = "", reason = "" } = JSON.parse(event.data);
      failed(error, reason);
      again();
    });
  };
  open();
  return end;
}
