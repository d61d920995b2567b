// The pods' logs as they are written. A line is text, whatever stands in it.

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { api, logStream } from "../../model/api.js";
import { follow } from "../../model/stream.js";
import { Copy, Trouble, useAnswer } from "../../parts/controls.js";
import { t } from "../../text/index.js";
import { checked, typed } from "../../parts/typed.js";

/** @import { LogLine } from "../../../../../types/api" */

const MOST_LINES = 5000;
const NEAR_END_PX = 40;
const BAD = /\b(error|exception|traceback|fatal)\b/i;

/**
 * @param {string} namespace
 * @param {string} name
 * @param {{ pod: string, previous: boolean, following: boolean }} choice
 */
function useLines(namespace, name, { pod, previous, following }) {
  const [state, setState] = useState({ lines: /** @type {LogLine[]} */ ([]), problem: "", ended: "" });
  useEffect(() => {
    setState({ lines: [], problem: "", ended: "" });
    let fresh = true;
    const options = { tail: "500", follow: String(following && !previous), previous: String(previous), ...(pod ? { pod } : {}) };
    return follow(logStream(namespace, name, options), {
      last: ["END"],
      on: {
        LINES: (/** @type {LogLine[]} */ lines) => {
          const again = fresh;
          fresh = false;
          setState((before) => ({ lines: [...(again ? [] : before.lines), ...lines].slice(-MOST_LINES), problem: "", ended: "" }));
        },
        END: ({ reason = "" }) => setState((before) => ({ ...before, ended: reason || "–" })),
      },
      state: (state) => {
        if (state === "waiting") fresh = true; // the stream begins anew with the last lines
      },
      failed: (problem) => setState((before) => ({ ...before, problem })),
    });
  }, [namespace, name, pod, previous, following]);
  return state;
}

/** @param {{ namespace: string, name: string }} props */
export function Logs({ namespace, name }) {
  const pods = useAnswer(() => api.pods(namespace, name), [namespace, name]);
  const [choice, setChoice] = useState({ pod: "", previous: false, following: true });
  const [query, setQuery] = useState("");
  const { lines, problem, ended } = useLines(namespace, name, choice);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const atEnd = useRef(true);
  useEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, query]);
  const scrolled = () => {
    const own = box.current;
    if (own) atEnd.current = own.scrollHeight - own.scrollTop - own.clientHeight < NEAR_END_PX;
  };
  const shown = query ? lines.filter((line) => line.text.toLowerCase().includes(query.toLowerCase())) : lines;
  const many = new Set(lines.map((line) => line.pod)).size > 1;
  return html`<div class="logs">
    <div class="bar">
      <label><span class="unseen">${t("logs.pod")}</span><select value=${choice.pod}
        onChange=${typed((pod) => setChoice({ ...choice, pod }))}>
        <option value="">${t("logs.all_pods")}</option>${(pods.value?.items ?? []).map((pod) => html`<option
          key=${pod.name} value=${pod.name}>${pod.name}</option>`)}</select></label>
      <label><span class="unseen">${t("logs.filter")}</span><input type="search" placeholder=${t("logs.filter")}
        value=${query} onInput=${typed(setQuery)} /></label>
      <label class="check"><input type="checkbox" checked=${choice.following}
        onChange=${checked((following) => setChoice({ ...choice, following }))} />${t("logs.follow")}</label>
      <label class="check"><input type="checkbox" checked=${choice.previous}
        onChange=${checked((previous) => setChoice({ ...choice, previous }))} />${t("logs.previous")}</label>
      <${Copy} text=${shown.map((line) => line.text).join("\n")} />
      <span class="hint">${t("logs.count", { n: shown.length })}${ended ? ` · ${t("logs.ended")}` : ""}</span>
    </div>
    ${problem && html`<${Trouble} error=${new Error(problem)} />`}
    <div class="log" ref=${box} tabindex="0" role="region" aria-label=${t("tab.logs")} onScroll=${scrolled}>
      ${shown.map((line, index) => html`<div key=${index} class=${BAD.test(line.text) ? "err" : ""}>
        ${many && html`<span class="pod">${line.pod.slice(-11)}</span>`}${line.text}</div>`)}
    </div>
  </div>`;
}
