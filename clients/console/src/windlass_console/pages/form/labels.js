// The words that a form has for a field, by its path; a field that has none is shown by its own name.

import { t } from "../text/index.js";
import { pathText } from "./schema.js";

/** @import { Path } from "./schema.js" */
/** @import { Key } from "../text/index.js" */

/** @type {Record<string, Key>} */
const LABELS = {
  "metadata.name": "form.name",
  "metadata.namespace": "nav.namespace",
  "spec.model.id": "form.id",
  "spec.model.source": "form.source",
  "spec.model.source.pvc.claimName": "form.claim",
  "spec.model.source.pvc.path": "form.directory",
  "spec.model.source.cfs.server": "form.server",
  "spec.model.source.cfs.path": "form.directory",
  "spec.model.source.nfs.server": "form.server",
  "spec.model.source.nfs.path": "form.directory",
  "spec.model.source.gooseFSx.mountPath": "form.mount",
  "spec.model.source.gooseFSx.path": "form.directory",
  "spec.model.source.hostPath.path": "form.directory",
  "spec.model.download": "form.download",
  "spec.model.download.hub": "form.hub",
  "spec.model.download.name": "form.hub_name",
  "spec.model.download.revision": "form.revision",
  "spec.model.download.endpoint": "form.mirror",
  "spec.model.download.tokenSecret": "form.hub_token",
  "spec.model.download.tokenSecret.name": "form.secret",
  "spec.model.download.tokenSecret.key": "form.secret_key",
  "spec.model.download.include": "form.include",
  "spec.model.download.exclude": "form.exclude",
  "spec.model.download.connections": "form.connections",
  "spec.model.download.fsGroup": "form.group",
  "spec.resources.gpuType": "form.gpu_type",
  "spec.resources.gpus": "form.gpus",
  "spec.replicas": "form.replicas",
  "spec.engine.maxModelLen": "form.context",
  "spec.deployment.mode": "form.deployment",
  "spec.image.family": "form.family",
  "spec.engine.quantization": "form.quantization",
  "spec.engine.lookahead.enabled": "form.lookahead",
  "spec.args": "form.args",
  "spec.command": "form.command",
};
const PATHS = /\b(?:metadata|spec)(?:\.\w+|\[\d+\])+/g;

/** The label of a field; empty where the form has no words for it. @param {string} path */
export const labelOf = (path) => (LABELS[path] ? t(LABELS[path]) : "");

/** A field as a sentence names it: by its label, else by its path. @param {Path} path */
export const nameInWords = (path) => labelOf(pathText(path)) || pathText(path);

/** A sentence of the API server with the form's labels in place of paths. @param {string} sentence */
export const inWords = (sentence) => sentence.replace(PATHS, (path) => (labelOf(path) ? `“${labelOf(path)}”` : path));
