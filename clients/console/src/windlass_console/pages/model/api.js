// Every call to the back end. Addresses are relative to the page, so a path prefix needs no setting.

/** @import { Bench, Call, Capacity, Choices, Detail, Items, KnownModel, Licenses, Metrics } from "../../../../types/api" */
/** @import { Permissions, PlanAnswer, Pod, Problem, Schema, Service, ServiceEvent, Session } from "../../../../types/api" */

const GUARD = { "X-Windlass-Console": "1" }; // no form of another origin can send it

/** A refusal: its text is a sentence for the user. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} reason
   * @param {Problem[]} fields
   */
  constructor(status, message, reason = "", fields = []) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.fields = fields;
  }
}

/** @type {() => void} what happens when the session has ended; the shell sets it */
let onSignedOut = () => {};

/** @param {() => void} listener */
export function whenSignedOut(listener) {
  onSignedOut = listener;
}

/**
 * @param {string} path
 * @param {RequestInit & { json?: unknown }} [options]
 * @returns {Promise<Response>}
 */
async function send(path, options = {}) {
  const { json, ...rest } = options;
  const headers = new Headers(rest.headers);
  if ((rest.method ?? "GET") !== "GET") headers.set("X-Windlass-Console", GUARD["X-Windlass-Console"]);
  if (json !== undefined) headers.set("Content-Type", "application/json");
  const body = json === undefined ? rest.body : JSON.stringify(json);
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(`api/${path}`, { ...rest, headers, body });
  } catch (error) {
    if (rest.signal?.aborted) throw error;
    throw new ApiError(0, "", "Offline");
  }
  if (answer.ok) return answer;
  throw await refusal(answer, path);
}

/**
 * @param {Response} answer
 * @param {string} path
 */
async function refusal(answer, path) {
  /** @type {{ error?: string, reason?: string, fields?: Problem[] }} */
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 && path !== "session") onSignedOut();
  return new ApiError(answer.status, body.error ?? `${answer.status} ${answer.statusText}`, body.reason, body.fields);
}

/**
 * @param {string} path
 * @param {RequestInit & { json?: unknown }} [options]
 * @returns {Promise<any>}
 */
async function sendJson(path, options) {
  const answer = await send(path, options);
  return answer.status === 204 ? null : answer.json();
}

/** @type {(namespace: string, name: string) => string} */
const pathOf = (namespace, name) => `services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
/** @type {(namespace: string) => string} */
const inNamespace = (namespace) => `namespace=${encodeURIComponent(namespace)}`;

export const api = {
  /** @type {() => Promise<Session>} */
  session: () => sendJson("session"),
  /** @type {(token: string) => Promise<Session>} */
  signIn: (token) => sendJson("session", { method: "POST", json: { token } }),
  signOut: () => sendJson("session", { method: "DELETE" }),
  /** @type {(namespace: string) => Promise<Permissions>} */
  permissions: (namespace) => sendJson(`permissions?${inNamespace(namespace)}`),

  /** @type {(namespace: string, name: string) => Promise<Detail>} */
  service: (namespace, name) => sendJson(pathOf(namespace, name)),
  /** @type {(service: Service, dryRun?: boolean) => Promise<Service>} */
  create: (service, dryRun = false) =>
    sendJson(`services/${encodeURIComponent(service.metadata.namespace)}?dryRun=${dryRun}`, { method: "POST", json: service }),
  /** @type {(loaded: Service, wanted: unknown) => Promise<Service>} the generation stands for the loaded spec */
  replace: ({ metadata: { namespace, name, uid, generation, labels, annotations } }, wanted) =>
    sendJson(pathOf(namespace, name), {
      method: "PUT",
      json: { loaded: { metadata: { uid, generation, labels, annotations } }, wanted },
    }),
  /** @type {(namespace: string, name: string, replicas: number) => Promise<null>} */
  scale: (namespace, name, replicas) =>
    sendJson(`${pathOf(namespace, name)}/scale`, { method: "PUT", json: { replicas } }),
  /** @type {(namespace: string, name: string, suspend: boolean) => Promise<Service>} */
  suspend: (namespace, name, suspend) =>
    sendJson(`${pathOf(namespace, name)}/suspend`, { method: "PUT", json: { suspend } }),
  /** @type {(namespace: string, name: string) => Promise<Service>} */
  retry: (namespace, name) => sendJson(`${pathOf(namespace, name)}/retry`, { method: "PUT", json: {} }),
  /** @type {(namespace: string, name: string) => Promise<null>} */
  remove: (namespace, name) => sendJson(pathOf(namespace, name), { method: "DELETE" }),

  /** @type {(namespace: string, name: string) => Promise<Items<Pod>>} */
  pods: (namespace, name) => sendJson(`${pathOf(namespace, name)}/pods`),
  /** @type {(namespace: string, name: string) => Promise<Items<ServiceEvent>>} */
  events: (namespace, name) => sendJson(`${pathOf(namespace, name)}/events`),
  /** @type {(namespace: string, name: string) => Promise<Metrics>} */
  metrics: (namespace, name) => sendJson(`${pathOf(namespace, name)}/metrics`),
  /** @type {(namespace: string, name: string) => Promise<Call>} */
  call: (namespace, name) => sendJson(`${pathOf(namespace, name)}/call`),
  /** @type {(namespace: string, name: string, body: unknown, key: string, signal: AbortSignal) => Promise<Response>} */
  chat: (namespace, name, body, key, signal) =>
    send(`${pathOf(namespace, name)}/chat`, {
      method: "POST",
      json: body,
      signal,
      headers: key ? { "X-Service-Key": key } : {},
    }),

  /** @type {() => Promise<Schema>} */
  schema: () => sendJson("schema"),
  /** @type {(question: unknown, signal: AbortSignal) => Promise<PlanAnswer>} */
  plan: (question, signal) => sendJson("plan", { method: "POST", json: question, signal }),
  /** @type {(namespace: string) => Promise<Items<KnownModel>>} */
  models: (namespace) => sendJson(`models?${inNamespace(namespace)}`),
  /** @type {(namespace: string) => Promise<Choices>} */
  choices: (namespace) => sendJson(`choices?${inNamespace(namespace)}`),

  /** @type {() => Promise<Capacity>} */
  capacity: () => sendJson("capacity"),
  /** @type {() => Promise<Licenses>} */
  licenses: () => sendJson("licenses"),
  /** @type {(namespace: string, name: string, file: File, token: string) => Promise<{ message: string }>} */
  uploadLicense: (namespace, name, file, token) =>
    sendJson(
      `licenses/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}?filename=${encodeURIComponent(file.name)}`,
      {
        method: "POST",
        body: file,
        headers: { "Content-Type": "application/octet-stream", ...(token ? { "X-License-Token": token } : {}) },
      },
    ),
  /** @type {(namespace: string) => Promise<Items<Bench>>} */
  benchmarks: (namespace) => sendJson(`benchmarks?${inNamespace(namespace)}`),
  /** @type {(namespace: string, job: string) => Promise<Bench>} */
  benchmark: (namespace, job) => sendJson(`benchmarks/${encodeURIComponent(namespace)}/${encodeURIComponent(job)}`),
  /** @type {(namespace: string, service: string, wanted: unknown) => Promise<Bench>} */
  startBenchmark: (namespace, service, wanted) =>
    sendJson(`benchmarks/${encodeURIComponent(namespace)}/${encodeURIComponent(service)}`, { method: "POST", json: wanted }),
  /** @type {(namespace: string, job: string) => Promise<null>} */
  removeBenchmark: (namespace, job) =>
    sendJson(`benchmarks/${encodeURIComponent(namespace)}/${encodeURIComponent(job)}`, { method: "DELETE" }),
};

/** Whether the session has ended: a stream's own error does not end it. */
export async function checkSession() {
  await api.session().catch((error) => error.status === 401 && onSignedOut());
}

/**
 * Why a stream is refused: an EventSource does not tell. Null where it is refused no longer.
 * @param {string} path
 * @returns {Promise<ApiError | null>}
 */
export async function refusalOf(path) {
  const stop = new AbortController();
  try {
    await send(path, { signal: stop.signal });
    return null;
  } catch (error) {
    return error instanceof ApiError ? error : null;
  } finally {
    stop.abort();
  }
}

/** @type {(namespace: string) => string} */
export const listStream = (namespace) => `services/watch?${inNamespace(namespace)}`;
/** @type {(namespace: string, name: string) => string} */
export const detailStream = (namespace, name) => `${pathOf(namespace, name)}/watch`;
/** @type {(namespace: string, name: string, options: Record<string, string>) => string} */
export const logStream = (namespace, name, options) =>
  `${pathOf(namespace, name)}/logs?${new URLSearchParams(options)}`;
