// Server-sent events that outlive a cut connection: a stream begins with the whole state, so it may begin anew.

import { checkSession, refusalOf } from "./api.js";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 30_000;
const STEADY_MS = 30_000; // a stream that lived so long begins the pauses anew; one that opens and fails does not
const SPREAD = 0.5; // of a pause, so that not every page comes back at the same moment

/**
 * @typedef {object} Listening
 * @property {Record<string, (data: any) => void>} on what to do with each kind of event
 * @property {(state: "live" | "waiting") => void} [state]
 * @property {(sentence: string, reason: string) => void} [failed] the server answered that it cannot go on
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
  let opened = Number.POSITIVE_INFINITY;
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
    if (Date.now() - opened >= STEADY_MS) wait = FIRST_WAIT_MS;
    opened = Number.POSITIVE_INFINITY;
    timer = setTimeout(open, wait * (1 - SPREAD * Math.random()));
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  };
  const refused = async () => {
    const error = await refusalOf(path);
    if (error?.message && !ended) failed(error.message, error.reason);
  };
  const open = () => {
    source = new EventSource(`api/${path}`);
    source.onopen = () => {
      opened = Date.now();
      state("live");
    };
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) refused(); // by a status, not by a cut connection
      again(); // closed here, so that our own pauses hold and not the browser's
    };
    for (const [kind, act] of Object.entries(on)) {
      source.addEventListener(kind, (event) => {
        act(JSON.parse(event.data));
        if (last.includes(kind)) end();
      });
    }
    source.addEventListener("ERROR", (event) => {
      const { error = "", reason = "" } = JSON.parse(event.data);
      failed(error, reason);
      checkSession();
      again();
    });
  };
  open();
  return end;
}
