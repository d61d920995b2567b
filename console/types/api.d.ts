// The shapes of the console's API (API.md) as the pages use them.

export type State = "good" | "wait" | "bad" | "off";

export interface Namespace { name: string; create: boolean }

export interface Session {
  user: string;
  groups: string[];
  expires: string | null;
  via: "cookie" | "header";
  version: string;
  namespaces: Namespace[];
  allNamespaces: boolean;
  namespacesComplete: boolean;
  defaultNamespace: string;
}

export type Right =
  | "list" | "watch" | "create" | "edit" | "scale" | "delete" | "pods" | "logs" | "events" | "metrics" | "chat"
  | "plan" | "bench" | "benchList" | "nodes" | "podsEverywhere" | "claims" | "secrets" | "licenses" | "licenseUpload";
export type Rights = Partial<Record<Right, boolean>>;

export interface Row {
  namespace: string;
  name: string;
  uid?: string;
  model: string;
  status: string;
  state: State;
  message: string;
  ready: string;
  replicas: number;
  readyReplicas?: number;
  gpus: number | null;
  gpuType: string | null;
  tp?: number | null;
  maxModelLen: number | null;
  quantization: string | null;
  created: string;
  suspend: boolean;
  deleting?: boolean;
}

export interface Rows { upserted: Row[]; deleted: { namespace: string; name: string }[]; synced?: boolean; reset?: boolean }

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  reason: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface CardBudget {
  weightsGiB?: string;
  kvGiB?: string;
  overheadGiB?: string;
  requiredGiB?: string;
  haveGiB?: string;
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
  measured?: { weightsGiB?: string; kvGiB?: string; kvTokens?: number };
  weightsGiB?: string;
  kvGiB?: string;
  requiredGiB?: string;
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

export interface Detail { row: Row; service: Service; remedy: string }

export interface Pod {
  name: string;
  phase: string;
  ready: boolean;
  restarts: number;
  node: string;
  created: string;
  containers: string[];
  state: string;
  deleting: boolean;
}

export interface ServiceEvent {
  type: string;
  reason: string;
  message: string;
  object: string;
  count: number;
  firstTime: string;
  lastTime: string;
}

export interface LogLine { pod: string; container: string; text: string; time?: string; goesOn?: boolean }

export interface Counters {
  problem?: string;
  running?: number | null;
  waiting?: number | null;
  kvUse?: number | null;
  promptTokens?: number | null;
  generationTokens?: number | null;
  requests?: number | null;
  ttftSum?: number | null;
  ttftCount?: number | null;
  ttftBuckets?: [number, number][] | null;
  itlSum?: number | null;
  itlCount?: number | null;
  prefixQueries?: number | null;
  prefixHits?: number | null;
  drafted?: number | null;
  accepted?: number | null;
}
export interface Metrics { time: number; pods: Record<string, Counters> }

export interface Call {
  model: string;
  models: string[];
  addresses: Address[];
  keyed: boolean;
  keysSecret?: string;
  curl: string;
  python: string;
  dify: [string, string][];
}

export interface Problem { field: string; message: string }
export interface Preview {
  fits: boolean;
  inForce: boolean;
  reason: string;
  message: string;
  remedy: string;
  plan: Plan | null;
  prediction: Record<string, unknown> | null;
  model: Record<string, unknown>;
  gpus: { node: string; product: string; allocatable: number; free: number }[];
}
export interface PlanAnswer {
  problems: Problem[];
  refused: string;
  preview: Preview | null;
  noFacts: string;
  factsFrom: string;
}

export interface KnownModel {
  namespace: string;
  service: string;
  id: string;
  source: Record<string, unknown>;
  known: boolean;
  architecture: string;
  params: string;
}
export interface Choices {
  claims: { name: string; size: string; modes: string[] }[] | null;
  gpuTypes: { name: string; product: string; gpus: number }[] | null;
  storageClasses: string[] | null;
  runtimeClasses: string[] | null;
}

export interface Holder { namespace: string; service: string; pod: string; gpus: number }
export interface Cards {
  resource: string;
  product: string;
  memoryGiB: number | null;
  allocatable: number;
  free: number;
  holders: Holder[];
}
export interface Node {
  name: string;
  ready: boolean;
  schedulable: boolean;
  why: string;
  cpu: string | number;
  memoryGiB: number;
  cards: Cards[];
}
export interface Fit {
  model: string;
  params: string;
  dtype: string;
  context: number;
  message: string;
  fits: boolean;
  gpus: number | null;
  gpuType: string | null;
}
export interface Capacity {
  nodes: Node[];
  holdersKnown: boolean;
  products: { product: string; resource: string; memoryGiB: number | null; allocatable: number; free: number; largestFree: number }[];
  fits: Fit[];
}

export interface Grant { brand: string; count: number; issued: string; expires: string; uuids: string[] }
export interface LicenseServer {
  namespace: string;
  name: string;
  ready: boolean;
  replicas: number;
  license: {
    customer: string;
    appid: string;
    gpus: number;
    limit: number | null;
    expires: string;
    expired: boolean;
    grants: Grant[];
  } | null;
  leases: { live: number; gpus: number } | null;
  problem: string;
  adminToken: boolean;
}
export interface Licenses { servers: LicenseServer[]; gpusInCluster: number | null }

export interface Bench {
  namespace: string;
  name: string;
  service: string;
  started: string;
  ended: string | null;
  state: "waiting" | "running" | "done" | "failed";
  message: string;
  command: string[];
  rows?: Record<string, string>[] | null;
  summary?: string;
  tail?: string | string[];
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

export interface Items<T> { items: T[] }
export interface Permissions { namespace: string; can: Rights }
