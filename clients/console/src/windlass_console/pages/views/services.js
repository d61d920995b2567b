// The list of services with their live status.

import { Component, html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { useStore } from "../model/store.js";
import { ALL, chosenNamespace, leftOut, useSession } from "../model/session.js";
import { cardsOf, counted, keyOf, STATES, useServices, wanted } from "../model/services.js";
import { age, thousands } from "../model/figures.js";
import { to } from "../model/router.js";
import { announce } from "../parts/feedback.js";
import { Empty, Loading, Status, Trouble, useNow } from "../parts/controls.js";
import { Icon } from "../parts/icons.js";
import { VirtualTable } from "../parts/virtual.js";
import { reasonText } from "../parts/reason.js";
import { language, t } from "../text/index.js";
import { typed } from "../parts/typed.js";

/** @import { Row, State } from "../../../../types/api" */
/** @import { Order } from "../model/services.js" */

const ROW_PX = 52;
const NARROW_ROW_PX = 76;
const narrow = matchMedia("(max-width: 760px)");

const announceChanges = (/** @type {Row[]} */ rows) => {
  if (!rows.length) return;
  const some = rows.slice(0, 3).map((row) => `${row.name}: ${reasonText(row.status)}`);
  announce(rows.length > 3 ? t("services.many_changed", { n: rows.length }) : some.join("; "));
};

export function Services() {
  const namespace = useStore(chosenNamespace);
  const session = useSession();
  const live = useServices(namespace, announceChanges);
  const [text, setText] = useState("");
  const [state, setState] = useState(/** @type {State | ""} */ (""));
  const [sorted, setSorted] = useState({ order: /** @type {Order} */ ("name"), down: false });
  const rows = useMemo(() => wanted(live.table, { text, state, ...sorted }), [live.table, text, state, sorted]);
  const counts = useMemo(() => counted(live.table), [live.table]);
  const mayCreate = session.namespaces.some((one) => one.create && (namespace === ALL || one.name === namespace));
  const offered = mayCreate || !session.namespacesComplete;
  useEffect(() => {
    document.title = `${t("nav.services")} · Windlass`;
  });
  return html`<section class="page full">
    <header class="top">
      <h1>${t("nav.services")}</h1>
      <${Live} connected=${live.connected} />
      ${offered && html`<a class="strong" href=${to("new")}><${Icon} name="plus" />${t("services.new")}</a>`}
    </header>
    <div class="tools">
      <${Filter} text=${text} onQuery=${setText} />
      <${States} counts=${counts} all=${live.table.size} chosen=${state} onChoose=${setState} />
    </div>
    ${live.problem && html`<${Trouble} error=${new Error(live.problem)} />`}
    ${namespace === ALL && leftOut(session) > 0 && html`<p class="hint">
      ${t("services.left_out", { n: leftOut(session), all: session.namespaces.length })}</p>`}
    <${Body} live=${live} rows=${rows} sorted=${sorted}
      onSort=${setSorted} offered=${offered} everywhere=${namespace === ALL} />
  </section>`;
}

/** @param {{ connected: boolean }} props */
const Live = ({ connected }) =>
  html`<span class=${connected ? "live" : "live cut"}><i aria-hidden="true"></i>
    ${connected ? t("state.live") : t("state.reconnecting")}</span>`;

/** @param {{ text: string, onQuery: (text: string) => void }} props */
function Filter({ text, onQuery }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    const slash = (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof Element && event.target.matches("input, textarea, select")) return;
      event.preventDefault();
      field.current?.focus();
    };
    addEventListener("keydown", slash);
    return () => removeEventListener("keydown", slash);
  }, []);
  return html`<label class="search"><${Icon} name="search" /><span class="unseen">${t("services.filter")}</span>
    <input ref=${field} type="search" value=${text} placeholder=${t("services.filter")} aria-keyshortcuts="/"
      onInput=${typed(onQuery)} />
    <kbd aria-hidden="true">/</kbd>
  </label>`;
}

/** @param {{ counts: Record<State, number>, all: number, chosen: State | "", onChoose: (state: State | "") => void }} props */
function States({ counts, all, chosen, onChoose }) {
  /** @type {[State | "", string, number][]} */
  const choices = [["", t("services.all"), all]];
  for (const one of STATES) choices.push([one, t(`state.${one}`), counts[one]]);
  return html`<div class="chips" role="group" aria-label=${t("services.by_state")}>
    ${choices.map(
      ([id, name, count]) =>
        html`<button key=${id} type="button" aria-pressed=${chosen === id ? "true" : "false"}
          onClick=${() => onChoose(id)}>
          ${id && html`<i class=${`dot ${id}`} aria-hidden="true"></i>`}${name} <b>${thousands(count)}</b>
        </button>`,
    )}
  </div>`;
}

/** @param {any} props */
function Body({ live, rows, sorted, onSort, offered, everywhere }) {
  const now = useNow();
  const [slim, setSlim] = useState(narrow.matches);
  useEffect(() => {
    const resized = () => setSlim(narrow.matches);
    narrow.addEventListener("change", resized);
    return () => narrow.removeEventListener("change", resized);
  }, []);
  if (!live.synced && !live.table.size) return live.problem ? null : html`<${Loading} />`;
  if (!live.table.size) {
    return html`<${Empty} title=${t("services.none")}><p>
      ${offered ? t("services.none_text") : t("services.none_read")}</p></${Empty}>`;
  }
  if (!rows.length) return html`<${Empty} title=${t("services.no_match")} />`;
  const minute = Math.floor(now / 10_000);
  return html`<${VirtualTable}
    rows=${rows}
    height=${slim ? NARROW_ROW_PX : ROW_PX}
    keyOf=${keyOf}
    label=${t("nav.services")}
    class=${everywhere ? "services everywhere" : "services"}
    head=${html`<${Head} sorted=${sorted} onSort=${onSort} />`}
    draw=${(/** @type {Row} */ row) => html`<${Line} row=${row} minute=${minute} everywhere=${everywhere} speaking=${language.get()} />`}
  />`;
}

/** @param {{ sorted: { order: Order, down: boolean }, onSort: (sorted: { order: Order, down: boolean }) => void }} props */
function Head({ sorted, onSort }) {
  /** @type {[Order | "", string][]} */
  const columns = [
    ["name", t("services.name")],
    ["state", t("services.status")],
    ["", t("services.ready")],
    ["gpus", t("services.cards")],
    ["", t("services.context")],
    ["created", t("services.age")],
  ];
  return html`<div class="head" role="rowgroup"><div class="line" role="row" aria-rowindex="1">
    ${columns.map(([order, name]) => {
      const on = order && sorted.order === order;
      const direction = on ? (sorted.down ? "descending" : "ascending") : undefined;
      const sort = () => order && onSort({ order, down: Boolean(on) && !sorted.down });
      return html`<div key=${name} role="columnheader" aria-sort=${direction}>
        ${order ? html`<button type="button" onClick=${sort}>${name}<i aria-hidden="true">
          ${on ? (sorted.down ? "↓" : "↑") : ""}</i></button>` : name}
      </div>`;
    })}
  </div></div>`;
}

/** A row is drawn again only when it, the minute or the language became another. */
class Line extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    const now = /** @type {any} */ (this.props);
    return next.row !== now.row || next.minute !== now.minute || next.speaking !== now.speaking || next.everywhere !== now.everywhere;
  }

  render() {
    const { row, everywhere } = /** @type {{ row: Row, everywhere: boolean }} */ (/** @type {unknown} */ (this.props));
    const cards = cardsOf(row);
    return html`
      <div role="cell" class="who">
        <a href=${to("services", row.namespace, row.name)}>${row.name}</a>
        <small>${everywhere && html`<span class="ns">${row.namespace}</span>`}${row.model}</small>
      </div>
      <div role="cell" class="what">
        <${Status} state=${row.state} text=${row.deleting ? t("state.deleting") : reasonText(row.status)} />
        <small title=${row.message}>${row.message}</small>
      </div>
      <div role="cell" class="ready">${row.ready || "–"}</div>
      <div role="cell" class="cards">${cards}</div>
      <div role="cell" class="context">${row.maxModelLen === null ? "–" : thousands(row.maxModelLen)}</div>
      <div role="cell" class="age">${age(row.created, Date.now())}</div>
    `;
  }
}
