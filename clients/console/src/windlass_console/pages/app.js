// The frame: who is signed in, the rail with the places, and the place that is open.

import { Fragment, html, useEffect, useErrorBoundary, useRef, useState } from "./vendor/preact.js";
import { keep, kept, useStore } from "./model/store.js";
import { isUnreachable, licenses, loadLicenses } from "./model/licenses.js";
import { route, to } from "./model/router.js";
import {
  ALL,
  chooseNamespace,
  chosenNamespace,
  loadSession,
  offersAll,
  signed,
  signOut,
  useRights,
  useSession,
} from "./model/session.js";
import { complain, Feedback } from "./parts/feedback.js";
import { Empty, Loading, Trouble } from "./parts/controls.js";
import { Icon } from "./parts/icons.js";
import { LANGUAGES, speak, t, useLanguage } from "./text/index.js";
import { SignIn } from "./views/sign_in.js";
import { Services } from "./views/services.js";
import { typed } from "./parts/typed.js";

/** Pages that are not needed at once are read when they are opened. */
const LAZY_PAGES = {
  new: () => import("./views/deploy.js").then((module) => module.New),
  edit: () => import("./views/deploy.js").then((module) => module.Edit),
  service: () => import("./views/service.js").then((module) => module.ServicePage),
  capacity: () => import("./views/capacity.js").then((module) => module.CapacityPage),
  licenses: () => import("./views/licenses.js").then((module) => module.LicensesPage),
  benchmarks: () => import("./views/benchmarks.js").then((module) => module.BenchmarksPage),
};

export function App() {
  const now = useStore(signed);
  useLanguage();
  useEffect(() => {
    loadSession();
  }, []);
  return html`
    ${now.state === "loading" && html`<main class="alone"><${Loading} /></main>`}
    ${now.state === "broken" && html`<main class="alone"><${Trouble} error=${now.error} onRetry=${loadSession} /></main>`}
    ${(now.state === "out" || now.state === "ended") && html`<${SignIn} ended=${now.state === "ended"} />`}
    ${now.state === "in" && html`<${Frame} />`}
    <${Feedback} />
  `;
}

function Frame() {
  const { parts } = useStore(route);
  useLanguage();
  useEffect(() => {
    if (!parts.length) location.replace(to("services"));
  }, [parts]);
  const page = parts.slice(0, 3).join("/");
  const opened = useRef(page);
  useEffect(() => {
    if (opened.current !== page) document.querySelector("main")?.focus({ preventScroll: true });
    opened.current = page;
  }, [page]);
  const skip = (/** @type {Event} */ event) => {
    event.preventDefault();
    document.querySelector("main")?.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t("a11y.skip")}</a>
    <div class="frame">
      <${Rail} at=${parts[0] ?? "services"} />
      <main id="main" tabindex="-1"><${CurrentPage} key=${page} parts=${parts} /></main>
    </div>
  `;
}

/** @param {{ at: string }} props */
function Rail({ at }) {
  const session = useSession();
  const namespace = useStore(chosenNamespace);
  const can = useRights(namespace === ALL ? session.defaultNamespace || session.namespaces[0]?.name || "default" : namespace);
  const unreachable = isUnreachable(useStore(licenses).value);
  useEffect(() => {
    if (can.licenses) loadLicenses();
  }, [can.licenses]);
  /** @type {[string, import("./parts/icons.js").IconName, string, boolean | undefined][]} */
  const places = [
    ["services", "services", t("nav.services"), true],
    ["capacity", "capacity", t("nav.capacity"), can.nodes],
    ["licenses", "licenses", t("nav.licenses"), can.licenses],
    ["benchmarks", "benchmarks", t("nav.benchmarks"), can.benchList],
  ];
  return html`<header class="rail">
    <a class="brand" href=${to("services")}><${Icon} name="mark" /><span>Windlass</span></a>
    <${NamespaceChoice} />
    <nav aria-label=${t("a11y.places")}>
      ${places.map(
        ([id, icon, name, shown]) =>
          shown &&
          html`<a key=${id} href=${to(id)}
            aria-current=${at === id || (at === "new" && id === "services") ? "page" : undefined}>
            <${Icon} name=${icon} /><span>${name}</span>
            ${id === "licenses" && unreachable && html`<i class="dot bad" title=${t("licenses.unreachable")}></i><span
              class="unseen">${t("licenses.unreachable")}</span>`}
          </a>`,
      )}
    </nav>
    <${UserMenu} />
  </header>`;
}

function NamespaceChoice() {
  const session = useSession();
  const chosen = useStore(chosenNamespace);
  const names = session.namespaces.map((one) => one.name);
  const known = chosen === ALL || names.includes(chosen) ? names : [chosen, ...names];
  if (!session.namespacesComplete) {
    return html`<label class="place"><span>${t("nav.namespace")}</span>
      <input list="namespaces" value=${chosen} aria-describedby="namespaces-hint"
        onChange=${(/** @type {any} */ event) => chooseNamespace(event.target.value.trim() || chosen)}
        spellcheck=${false} />
      <datalist id="namespaces">${offersAll(session) && html`<option value=${ALL}>${t("nav.all_namespaces")}</option>`}
        ${known.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <small class="hint" id="namespaces-hint">${t("nav.namespaces_cut", { n: names.length })}</small>
    </label>`;
  }
  return html`<label class="place"><span>${t("nav.namespace")}</span>
    <select value=${chosen} onChange=${typed(chooseNamespace)}>
      ${offersAll(session) && html`<option value=${ALL}>${t("nav.all_namespaces")}</option>`}
      ${known.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
    </select>
  </label>`;
}

/** Who is signed in, and how the pages look and speak. */
function UserMenu() {
  const session = useSession();
  return html`<div class="self">
    <${Choices} />
    <p class="user" title=${session.groups.join(", ")}><span>${session.user}</span>
      ${
        session.via === "cookie" &&
        html`<button type="button" class="quiet square" aria-label=${t("do.sign_out")} title=${t("do.sign_out")}
          onClick=${() => signOut().catch(complain)}><${Icon} name="leave" /></button>`
      }
    </p>
  </div>`;
}

export function Choices() {
  const speaking = useLanguage();
  const [theme, setTheme] = useState(kept("theme", "system"));
  const paint = (/** @type {string} */ next) => {
    keep("theme", next);
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    setTheme(next);
  };
  return html`<div class="choices">
    <label><span class="unseen">${t("nav.language")}</span>
      <select value=${speaking} onChange=${typed(speak)}>
        ${LANGUAGES.map(([id, name]) => html`<option key=${id} value=${id} lang=${id}>${name}</option>`)}
      </select></label>
    <label><span class="unseen">${t("nav.theme")}</span>
      <select value=${theme} onChange=${typed(paint)}>
        <option value="system">${t("theme.system")}</option>
        <option value="light">${t("theme.light")}</option>
        <option value="dark">${t("theme.dark")}</option>
      </select></label>
  </div>`;
}

/** @param {{ parts: string[] }} props */
function CurrentPage({ parts }) {
  const [first = "services", namespace, name, tab] = parts;
  const [broken, again] = useErrorBoundary();
  if (broken) return html`<${Trouble} error=${broken} onRetry=${again} />`;
  if (first === "services" && !namespace) return html`<${Services} />`;
  if (first === "services" && namespace && name) {
    const page = tab === "edit" ? "edit" : "service";
    return html`<${LazyPage} key=${page} page=${page} namespace=${namespace} name=${name} tab=${tab ?? "overview"} />`;
  }
  if (Object.hasOwn(LAZY_PAGES, first) && first !== "edit" && first !== "service") return html`<${LazyPage}
    key=${first} page=${first} />`;
  return html`<${Empty} title=${t("error.no_page")}><a href=${to("services")}>${t("nav.services")}</a></${Empty}>`;
}

/** @param {{ page: keyof typeof LAZY_PAGES, [key: string]: unknown }} props */
function LazyPage({ page, ...rest }) {
  const [made, setMade] = useState(/** @type {{ of?: any, error?: unknown }} */ ({}));
  useEffect(() => {
    LAZY_PAGES[page]().then(
      (of) => setMade({ of }),
      (error) => setMade({ error }),
    );
  }, [page]);
  if (made.error) return html`<${Trouble} error=${made.error} />`;
  return made.of ? html`<${made.of} ...${rest} />` : html`<${Fragment} />`;
}
