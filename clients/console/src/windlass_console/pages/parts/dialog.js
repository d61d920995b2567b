// A modal question on the browser's own dialog: it keeps the focus inside and gives it back.

import { html, useEffect, useId, useRef } from "../vendor/preact.js";
import { t } from "../text/index.js";
import { Icon } from "./icons.js";

/**
 * @param {{ title: string, onClose: () => void, onSubmit?: () => void, children?: unknown, class?: string }} props
 */
export function Dialog({ title, onClose, onSubmit, children, class: kind = "" }) {
  const own = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const dialog = own.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    onSubmit?.();
  };
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${own} class=${kind} aria-labelledby=${id} onCancel=${cancel}>
    <form method="dialog" onSubmit=${submit}>
      <header>
        <h2 id=${id}>${title}</h2>
        <button type="button" class="quiet square" aria-label=${t("do.close")} onClick=${onClose}><${Icon}
          name="close" /></button>
      </header>
      ${children}
    </form>
  </dialog>`;
}
