// The resource as the API server has it.

import { html, useMemo } from "../../vendor/preact.js";
import { Code } from "../../parts/controls.js";
import { editable } from "../../form/document.js";
import { t } from "../../text/index.js";

/** @import { Detail } from "../../../../../types/api" */

/** @param {{ detail: Detail }} props */
export function Resource({ detail }) {
  const text = useMemo(() => editable(detail.service), [detail.service]);
  return html`<div class="stack"><p class="hint">${t("service.yaml_hint")}</p><${Code} text=${text} label="YAML" />
    </div>`;
}
