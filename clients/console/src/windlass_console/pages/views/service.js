// The page of one service: what it does now, and every way to look into it or change it.

import { html, useEffect, useState } from "../vendor/preact.js";
import { detailStream } from "../model/api.js";
import { follow } from "../model/stream.js";
import { to } from "../model/router.js";
import { useRights } from "../model/session.js";
import { cardsOf } from "../model/services.js";
import { age } from "../model/figures.js";
import { announce } from "../parts/feedback.js";
import { Empty, Loading, Status, Tabs, Trouble, useNow } from "../parts/controls.js";
import { reasonText } from "../parts/reason.js";
import { t } from "../text/index.js";
import { Actions } from "./service/actions.js";
import { isHeldUp, Overview } from "./service/overview.js";
import { Graphs } from "./service/graphs.js";
import { Logs } from "./service/logs.js";
import { Events } from "./service/events.js";
import { Chat } from "./service/chat.js";
import { Calling } from "./service/calling.js";
import { Resource } from "./service/resource.js";

/** @import { Detail, Rights } from "../../../../types/api" */

/**
 * @param {string} namespace
 * @param {string} name
 */
function useDetail(namespace, name) {
  const [state, setState] = useState({
    detail: /** @type {Detail | null} */ (null),
    gone: false,
    problem: "",
  });
  useEffect(() => {
    let status = "";
    return follow(detailStream(namespace, name), {
      last: ["DELETED"],
      on: {
        CHANGED: (/** @type {Detail} */ detail) => {
          if (status && status !== detail.row.status) announce(`${name}: ${reasonText(detail.row.status)}`);
          status = detail.row.status;
          setState({ detail, gone: false, problem: "" });
        },
        DELETED: () => setState((before) => ({ ...before, gone: true, problem: "" })),
      },
      failed: (problem, reason) => setState((before) => ({ ...before, problem, gone: before.gone || reason === "NotFound" })),
    });
  }, [namespace, name]);
  return state;
}

/** @param {Rights} can
 * @returns {[string, string][]} */
const tabsFor = (can) => {
  /** @type {[string, string, boolean | undefined][]} */
  const all = [
    ["overview", t("tab.overview"), true],
    ["graphs", t("tab.graphs"), can.metrics],
    ["logs", t("tab.logs"), can.logs],
    ["events", t("tab.events"), can.events],
    ["chat", t("tab.chat"), can.chat],
    ["call", t("tab.call"), true],
    ["yaml", "YAML", true],
  ];
  return all.filter(([, , shown]) => shown).map(([id, name]) => [id, name]);
};

/** @type {Record<string, any>} */
const PAGES = { overview: Overview, graphs: Graphs, logs: Logs, events: Events, chat: Chat, call: Calling, yaml: Resource };

/** Pages that take the height that is left and scroll inside: what one types into stays in sight. */
const FILLING = new Set(["chat", "logs"]);

/** @param {{ namespace: string, name: string, tab: string }} props */
export function ServicePage({ namespace, name, tab }) {
  const { detail, gone, problem } = useDetail(namespace, name);
  const can = useRights(namespace);
  const now = useNow();
  useEffect(() => {
    document.title = `${name} · Windlass`;
  }, [name]);
  if (gone) return html`<${Empty} title=${t(detail ? "service.gone" : "service.unknown", { name })}><a href=${to("services")}>${t("nav.services")}
    </a></${Empty}>`;
  if (!detail) return html`<section class="page"><h1>${name}</h1>
    ${problem ? html`<${Trouble} error=${new Error(problem)} />` : html`<${Loading} />`}</section>`;
  const { row } = detail;
  const Page = PAGES[tab] ?? Overview;
  const hrefOf = (/** @type {string} */ id) => to("services", namespace, name, id);
  return html`<section class=${FILLING.has(tab) ? "page service full" : "page service"}>
    <p class="crumbs"><a href=${to("services")}>${t("nav.services")}</a> / ${namespace}</p>
    <header class="top">
      <h1>${name} <${Status} state=${row.state} text=${row.deleting ? t("state.deleting") : reasonText(row.status)} /></h1>
      <${Actions} detail=${detail} can=${can} />
    </header>
    <p class="sub"><span class="wrap">${row.model}</span>${row.ready && html`<span>${t("service.replicas", { ready: row.ready })}
      </span>`}${row.gpus === null ? null : html`<span>${cardsOf(row)}
      </span>`}<span>${t("service.age", { age: age(row.created, now) })}</span>
      ${isHeldUp(detail) && html`<${Status} state="bad" text=${reasonText(detail.service.status?.failure?.reason ?? "")} />`}</p>
    ${problem && html`<${Trouble} error=${new Error(problem)} />`}
    <${Tabs} tabs=${tabsFor(can)} chosen=${tab in PAGES ? tab : "overview"} hrefOf=${hrefOf} label=${t("a11y.tabs")} />
    <${Page} detail=${detail} can=${can} namespace=${namespace} name=${name} />
  </section>`;
}
