// Where the page begins.

import { App } from "./app.js";
import { html, render } from "./vendor/preact.js";

const place = document.querySelector("#app");
if (place) render(html`<${App} />`, place);
