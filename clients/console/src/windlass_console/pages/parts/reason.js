// The words of a reason of a status or an Event; the condition's own sentence stands beside them.

import { tOr } from "../text/index.js";

/** Abbreviations as a person writes them. @type {Record<string, string>} */
const ABBREVIATIONS = { api: "API", cpu: "CPU", gpu: "GPU", gpus: "GPUs", nccl: "NCCL" };

/** The words of a reason: those of the tables, else the reason itself, spelled: `GpuTooOld` is "GPU too old". @param {string} reason */
export const reasonText = (reason) => tOr(`reason.${reason}`, /^([A-Z][a-z]+)+$/.test(reason) ? spelled(reason) : reason);

/** @param {string} reason */
function spelled(reason) {
  const words = (reason.match(/[A-Z][a-z]+/g) ?? []).map((word) => word.toLowerCase()).map((word) => ABBREVIATIONS[word] ?? word);
  return words.join(" ").replace(/^./, (first) => first.toUpperCase());
}
