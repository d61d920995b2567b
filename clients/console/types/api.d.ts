// The shapes of the console's API as the pages use them: those of openapi.d.ts, which `npm run types` writes from
// openapi.json, and those that OpenAPI leaves open: the resource, the plan's preview, the streams.

import type { components } from "./openapi";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type Permissions = Schemas["Permissions"];
export type Right = keyof Permissions["can"] & string;
export type Rights = { [name in string]?: boolean };
export type State = "good" | "wait" | "bad" | "off";
export type Row = Omit<Schemas["Row"], "state"> & { state: State };
export type Pod = Schemas["PodView"];
export type ServiceEvent = Schemas["EventView"];
export type Counters = Schemas["PodMetrics"];
export type Metrics = Schemas["Metrics"];
export type Call = Schemas["Call"];
export type Problem = Schemas["Problem"];
export type PlanAnswer = Omit<Schemas["Planned"], "preview"> & { preview: Preview | null };
export type KnownModel = Schemas["ModelOffer"];
export type Choices = Schemas["Choices"];
export type Capacity = Schemas["Capacity"];
export type Node = Schemas["NodeView"];
export type Cards = Node["cards"][number];
export type Fit = Schemas["Fit"];
export type Licenses = Schemas["Licenses"];
export type LicenseServer = Schemas["ServerView"];
export type Bench = Schemas["Bench"];

export interface Items<T> { items: T[] }
export interface Detail { row: Row; service: Service; remedy: string }

export interface Rows { upserted: Row[]; deleted: { namespace: string; name: string }[]; synced?: boolean; reset?: boolean }

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface CardBudget {
  weightsGib?: string;
  kvCacheGib?: string;
  overheadGib?: string;
  requiredGib?: string;
  haveGib?: string;
}

export interface Plan {
  gpus?: number;
  tp?: number;
  pp?: number;
  nodes?: number;
  gpuType?: string;
  maxModelLen?: number;
  dtype?: string;
  quantization?: string;
  group?: string;
  rollout?: string;
  perGPU?: CardBudget;
  measured?: { weightsGib?: string; kvCacheGib?: string; kvTokens?: number };
  weightsGib?: string;
  kvCacheGib?: string;
  requiredGib?: string;
  hostMemory?: { name: string; gib: string }[];
  because?: string[];
  alternatives?: string[];
  advice?: string[];
}

export interface Failure { reason?: string; container?: string; exitCode?: number; excerpt?: string; remedy?: string; count?: number }

export interface Phase { phase: string; seconds: string }

export interface Address { name: string; url: string }

export interface Status {
  conditions?: Condition[];
  plan?: Plan;
  startup?: Phase[];
  failure?: Failure;
  download?: { bytesDone?: number; bytesTotal?: number; bytesPerSecond?: number; remainingSeconds?: number };
  ready?: string;
  replicas?: number;
  readyReplicas?: number;
  addresses?: Address[];
}

export interface Service {
  apiVersion?: string;
  kind?: string;
  metadata: { name: string; namespace: string; creationTimestamp?: string; resourceVersion?: string; [key: string]: unknown };
  spec: { model: { id: string; [key: string]: unknown }; replicas?: number; suspend?: boolean; [key: string]: unknown };
  status?: Status;
}

export interface LogLine { pod: string; container: string; text: string; time?: string; goesOn?: boolean }

export interface Preview {
  fits: boolean;
  inForce: boolean;
  reason: string;
  message: string;
  remedy: string;
  plan: Plan | null;
  settings: { setting: string; value: string; from: string }[];
  prediction: Record<string, unknown> | null;
  model: Record<string, unknown>;
  gpus: { node: string; product: string; allocatable: number; free: number | null }[];
}

// A JSON Schema as the CRD's pages use it.
export interface Schema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: (string | number)[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  additionalProperties?: boolean | Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  minProperties?: number;
  maxProperties?: number;
  pattern?: string;
  "x-kubernetes-validations"?: { message?: string; rule: string }[];
}
