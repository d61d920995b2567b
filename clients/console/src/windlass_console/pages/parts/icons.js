// The icons as paths: no file is fetched for them, and their colour is the text's.

import { html } from "../vendor/preact.js";

const PATHS = {
  mark: "M4 20V6m13 14V6m0 5.5h3.5V7M10.5 15v5M5.5 8h10A1.5 1.5 0 0 1 17 9.5v4a1.5 1.5 0 0 1-1.5 1.5h-10A1.5 1.5 0 0 1 4 13.5v-4A1.5 1.5 0 0 1 5.5 8M8.3 8v7m4.4-7v7",
  services: "M4 6h16M4 12h16M4 18h16",
  capacity: "M7 4v3m5-3v3m5-3v3M7 17v3m5-3v3m5-3v3M4 9a2 2 0 0 1 2-2h12a2 2 0 0 1 2 2v6a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2zM9 10.5h6v3H9z",
  licenses: "M14.5 9.5a4 4 0 1 0-3 3.87L13 15h2v2h2v2h3v-3l-5.6-5.6c.07-.3.1-.6.1-.9M9.7 8.7h.01",
  benchmarks: "M4 17a8 8 0 1 1 16 0M12 17l4-6M6.5 14h.01M12 9.2h.01",
  plus: "M12 5v14M5 12h14",
  search: "M16.2 16.2 20 20M4.5 11a6.5 6.5 0 1 0 13 0 6.5 6.5 0 1 0-13 0",
  copy: "M11 9h7a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2h-7a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2M15 6.5V6a2 2 0 0 0-2-2H6a2 2 0 0 0-2 2v7a2 2 0 0 0 2 2h.5",
  check: "m5 12.5 4.5 4.5L19 7.5",
  close: "m6 6 12 12M18 6 6 18",
  edit: "M5 19l.8-3.6L15.6 5.6a1.9 1.9 0 0 1 2.8 2.8L8.6 18.2 5 19z",
  scale: "M4 12h16M8 8l-4 4 4 4m8-8 4 4-4 4",
  pause: "M8 5v14m8-14v14",
  play: "M8 5.5v13l10.5-6.5z",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.3 10.5v5.5m3.4-5.5v5.5",
  retry: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  right: "m9 5 7 7-7 7",
  down: "m5 9 7 7 7-7",
  warn: "M12 9v4.5m0 3h.01M10.5 4.6 2.9 18a1.7 1.7 0 0 0 1.5 2.5h15.2a1.7 1.7 0 0 0 1.5-2.5L13.5 4.6a1.7 1.7 0 0 0-3 0z",
  send: "M12 19V5m-6 6 6-6 6 6",
  stop: "M7 7h10v10H7z",
  leave: "M14 8V5.5A1.5 1.5 0 0 0 12.5 4h-7A1.5 1.5 0 0 0 4 5.5v13A1.5 1.5 0 0 0 5.5 20h7a1.5 1.5 0 0 0 1.5-1.5V16m-4-4h11m-3.5-3.5L21 12l-3.5 3.5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 1 0 0-8M12 2.5v2m0 15v2M2.5 12h2m15 0h2M5.3 5.3l1.4 1.4m10.6 10.6 1.4 1.4m0-13.4-1.4 1.4M6.7 17.3l-1.4 1.4",
  upload: "M12 16V5m-4.5 4.5L12 5l4.5 4.5M5 19h14",
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {{ name: IconName }} props */
export const Icon = ({ name }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
