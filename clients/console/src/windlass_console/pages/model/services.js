// The rows of the list, as the stream brings them. Pure but for `useServices`, which follows the stream.

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { listStream } from "./api.js";
import { follow } from "./stream.js";

/** @import { Row, Rows, State } from "../../../../types/api" */

/** @typedef {Map<string, Row>} Table */

export const STATES = /** @type {const} */ (["good", "wait", "bad", "off"]);
export const keyOf = (/** @type {{ namespace: string, name: string }} */ row) => `${row.namespace}/${row.name}`;

/** The GPUs of a replica; a service without pods holds none. @param {Row} row */
export function cardsOf({ gpus, gpuType, state }) {
  if (gpus === null) return "–";
  return gpus || state === "off" ? `${gpus} × ${gpuType ?? "GPU"}` : "CPU";
}

/**
 * The table after an event; the same rows stay the same objects.
 * @param {Table} before
 * @param {Rows} change
 * @returns {Table}
 */
function merged(before, change) {
  const table = new Map(change.reset ? [] : before);
  for (const row of change.upserted) table.set(keyOf(row), row);
  for (const gone of change.deleted) table.delete(keyOf(gone));
  return table;
}

/** @typedef {"name" | "state" | "gpus" | "created"} Order */

const RANK = { bad: 0, wait: 1, good: 2, off: 3 };
/** @type {Record<Order, (a: Row, b: Row) => number>} */
const ORDERS = {
  name: () => 0,
  state: (a, b) => RANK[a.state] - RANK[b.state],
  gpus: (a, b) => (b.gpus ?? -1) * b.replicas - (a.gpus ?? -1) * a.replicas,
  created: (a, b) => (b.created ?? "").localeCompare(a.created ?? ""),
};

/**
 * The rows that are asked for, in their order.
 * @param {Table} table
 * @param {{ text: string, state: State | "", order: Order, down: boolean }} filter
 * @returns {Row[]}
 */
export function wanted(table, { text, state, order, down }) {
  const parts = text.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.values()].filter((row) => {
    if (state && row.state !== state) return false;
    const cells = `${row.namespace} ${row.name} ${row.model} ${row.status} ${row.gpuType ?? ""}`.toLowerCase();
    return parts.every((part) => cells.includes(part));
  });
  const sign = down ? -1 : 1;
  return rows.sort(
    (a, b) => sign * ORDERS[order](a, b) || sign * a.name.localeCompare(b.name) || a.namespace.localeCompare(b.namespace),
  );
}

/**
 * @param {Table} table
 * @returns {Record<State, number>}
 */
export function counted(table) {
  const counts = { good: 0, wait: 0, bad: 0, off: 0 };
  for (const row of table.values()) counts[row.state] += 1;
  return counts;
}

/**
 * What a change says to somebody who listens: the services whose state became another.
 * @param {Table} before
 * @param {Rows} change
 */
const changedState = (before, change) =>
  change.upserted.filter((row) => {
    const old = before.get(keyOf(row));
    return old && old.state !== row.state;
  });

/**
 * The services of a namespace, live.
 * @param {string} namespace
 * @param {(rows: Row[]) => void} onChangedState
 */
export function useServices(namespace, onChangedState) {
  const [live, setLive] = useState({
    table: /** @type {Table} */ (new Map()),
    synced: false,
    connected: true,
    problem: "",
  });
  const held = useRef(live.table);
  useEffect(() => {
    held.current = new Map();
    setLive({ table: held.current, synced: false, connected: true, problem: "" });
    return follow(listStream(namespace), {
      on: {
        ROWS: (/** @type {Rows} */ change) => {
          if (!change.reset) onChangedState(changedState(held.current, change));
          held.current = merged(held.current, change);
          setLive((was) => ({ table: held.current, synced: was.synced || Boolean(change.synced), connected: true, problem: "" }));
        },
      },
      state: (state) => setLive((was) => ({ ...was, connected: state === "live" })),
      failed: (problem) => setLive((was) => ({ ...was, problem })),
    });
  }, [namespace]);
  return live;
}
