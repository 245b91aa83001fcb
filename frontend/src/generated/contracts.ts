// Written by `make generate` from inference/contracts. Do not edit.

export const ErrorCode = {
  INVALID_REQUEST: "invalid_request",
  CONTEXT_LENGTH_EXCEEDED: "context_length_exceeded",
  MODEL_NOT_FOUND: "model_not_found",
  KV_FULL: "kv_full",
  QUEUE_FULL: "queue_full",
  DRAINING: "draining",
  NOT_READY: "not_ready",
  FINGERPRINT_MISMATCH: "fingerprint_mismatch",
  CHECKSUM_MISMATCH: "checksum_mismatch",
  TOKEN_COUNT_MISMATCH: "token_count_mismatch",
  TICKET_EXPIRED: "ticket_expired",
  TICKET_UNKNOWN: "ticket_unknown",
  UNAUTHENTICATED: "unauthenticated",
  UNREADABLE: "unreadable",
  TRANSFER_FAILED: "transfer_failed",
  DEADLINE_EXCEEDED: "deadline_exceeded",
  CANCELLED: "cancelled",
  ENGINE_FAILED: "engine_failed",
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/** Why an answer ended. STOP: end-of-sequence or a stop string. LENGTH: the token limit. */
export const FinishReason = {
  STOP: "stop",
  LENGTH: "length",
} as const;
export type FinishReason = (typeof FinishReason)[keyof typeof FinishReason];

/** Where the prompt was read: on a prefill worker (HANDOFF) or on the worker that writes the answer (LOCAL). */
export const PrefillPath = {
  HANDOFF: "handoff",
  LOCAL: "local",
} as const;
export type PrefillPath = (typeof PrefillPath)[keyof typeof PrefillPath];

/**
 * What a worker does for a request.
 *
 * PREFILL reads prompts and hands the KV cache over; DECODE writes answers (and may prefill short prompts
 * itself); UNIFIED does both for every request and never takes part in a hand-off.
 */
export const Role = {
  PREFILL: "prefill",
  DECODE: "decode",
  UNIFIED: "unified",
} as const;
export type Role = (typeof Role)[keyof typeof Role];

/**
 * What the control plane wants of a worker. Written by services only.
 *
 * RUN ──> DRAIN ──> STOP
 *  ^        │
 *  └────────┘  (a resize-up may cancel a drain)
 */
export const WorkerDesired = {
  RUN: "run",
  DRAIN: "drain",
  STOP: "stop",
} as const;
export type WorkerDesired = (typeof WorkerDesired)[keyof typeof WorkerDesired];

/**
 * What a worker is seen to be. Written from node reports only, except where marked.
 *
 *     ASSIGNED ──> STARTING ──> LOADING ──> READY ──> DRAINING ──> STOPPING ──> STOPPED
 *                     ^  │         │          │           │            ^
 *                     │  └────┬────┴──────────┴───────────┘            │
 *                     │       v (process died)                         │ (desired = stop, from any phase)
 *                     └── BACKOFF ──> FAILED                           │
 *                                     (attempts used up, or an error that a restart cannot mend)
 *
 * ASSIGNED: the row exists, its node has not reported it yet (control plane).
 * STARTING: the process is launched and does not answer yet (agent).
 * LOADING: the process answers and loads weights (agent).
 * READY: weights are loaded and a token was generated (agent).
 * DRAINING: takes no new requests; finishes what it has (agent).
 * STOPPING: told to exit (agent).   STOPPED: gone (agent).
 * BACKOFF: died; is started again at a known time (agent).
 * FAILED: is not started again until an operator asks (agent).
 * UNKNOWN: its node is silent; nothing is known (control plane). Leaves to whatever the node reports next.
 */
export const WorkerPhase = {
  ASSIGNED: "assigned",
  STARTING: "starting",
  LOADING: "loading",
  READY: "ready",
  DRAINING: "draining",
  STOPPING: "stopping",
  STOPPED: "stopped",
  BACKOFF: "backoff",
  FAILED: "failed",
  UNKNOWN: "unknown",
} as const;
export type WorkerPhase = (typeof WorkerPhase)[keyof typeof WorkerPhase];

/**
 * What a node is seen to be.
 *
 *     JOINING ──(first report)──> READY <──(report)── LOST
 *                                   └──(silence)───────^
 *
 * JOINING: the join token was used, no report yet (join service). READY: reports arrive (report service).
 * LOST: silent past the limit, by arrival time (sweep).
 */
export const NodePhase = {
  JOINING: "joining",
  READY: "ready",
  LOST: "lost",
} as const;
export type NodePhase = (typeof NodePhase)[keyof typeof NodePhase];

/** GPU: seen through NVML. CPU: a slot of processor cores and memory on a node without a GPU. */
export const DeviceKind = {
  GPU: "gpu",
  CPU: "cpu",
} as const;
export type DeviceKind = (typeof DeviceKind)[keyof typeof DeviceKind];

/** What an operator asked for. */
export const OperationKind = {
  DEPLOY: "deploy",
  RESIZE: "resize",
  DELETE: "delete",
} as const;
export type OperationKind = (typeof OperationKind)[keyof typeof OperationKind];

/**
 * Where an operator's intent stands. Written by the operations services.
 *
 *     RUNNING ──> SUCCEEDED | FAILED | SUPERSEDED
 *
 * SUPERSEDED: a later operation on the same target took over before this one was done.
 */
export const OperationState = {
  RUNNING: "running",
  SUCCEEDED: "succeeded",
  FAILED: "failed",
  SUPERSEDED: "superseded",
} as const;
export type OperationState = (typeof OperationState)[keyof typeof OperationState];

/**
 * One closed request as the router saw it. Durations in seconds.
 *
 * segments: add up to ttft_s; what no worker explains is a segment of its own ("network").
 * handoff_s: first token until KV accepted; decode_wait_s: KV accepted until first decode step;
 * both lie after the first token, inside first_gap_s.
 */
export interface RequestTiming {
  readonly request_id: string;
  readonly deployment: string;
  readonly path: PrefillPath;
  readonly prefill_worker: string | null;
  readonly decode_worker: string;
  readonly prompt_tokens: number;
  readonly cached_tokens: number;
  readonly completion_tokens: number;
  readonly finish_reason: string;
  readonly ttft_s: number | null;
  readonly tpot_s: number | null;
  readonly e2e_s: number;
  readonly segments: readonly Segment[];
  readonly first_gap_s: number | null;
  readonly handoff_s: number | null;
  readonly handoff_bytes: number | null;
  readonly decode_wait_s: number | null;
  readonly retries: number;
}

/** One stage of a request on its way to the first token. The segments of a request add up to its TTFT. */
export interface Segment {
  readonly name: string;
  readonly seconds: number;
}

/** First message on a socket, and again whenever events may have been missed. */
export interface SnapshotMessage {
  readonly type: "snapshot";
  readonly snapshot: Snapshot;
}

/** Everything the console shows. operations: the newest 50. frames: the last ten minutes. */
export interface Snapshot {
  readonly seq: string;
  readonly deployments: readonly DeploymentView[];
  readonly nodes: readonly NodeView[];
  readonly operations: readonly OperationView[];
  readonly models: readonly ModelView[];
  readonly frames: readonly TelemetryFrame[];
}

export interface DeploymentView {
  readonly name: string;
  readonly model: string;
  readonly serving: boolean;
  readonly status: string;
  readonly local_prefill_tokens: number;
  readonly settings: EngineSettings;
  readonly created_at: string;
  readonly deleting: boolean;
  readonly pools: readonly PoolView[];
}

/**
 * How one native engine is to run.
 *
 * dtype: "auto" (float32 on CPU, bfloat16 on GPU), "float32", "bfloat16" or "float16".
 * max_model_len: longest prompt + answer in tokens; None takes the model's own context length.
 * kv_tokens: size of the KV arena in tokens, rounded down to whole blocks.
 * block_size: tokens per KV block.
 * prefill_chunk_tokens: most prompt tokens computed in one step; 0 computes prompts whole.
 * max_running: most requests in one decode batch.
 * threads: torch CPU threads; 0 takes the cores of the worker's devices.
 */
export interface EngineSettings {
  readonly dtype: string;
  readonly max_model_len: number | null;
  readonly kv_tokens: number;
  readonly block_size: number;
  readonly prefill_chunk_tokens: number;
  readonly max_running: number;
  readonly threads: number;
}

/** refusals: why workers that are wanted could not be placed, one sentence each. */
export interface PoolView {
  readonly id: string;
  readonly deployment: string;
  readonly role: Role;
  readonly replicas: number;
  readonly ready: number;
  readonly generation: number;
  readonly min_replicas: number;
  readonly max_replicas: number;
  readonly refusals: readonly string[];
  readonly workers: readonly WorkerView[];
}

/** fingerprint_conflict: why its fingerprint keeps it from pairing (F06). */
export interface WorkerView {
  readonly id: string;
  readonly name: string;
  readonly pool_id: string;
  readonly node_id: string;
  readonly node_name: string;
  readonly role: Role;
  readonly desired: WorkerDesired;
  readonly phase: WorkerPhase;
  readonly reason: string;
  readonly attempts: number;
  readonly next_start_s: number | null;
  readonly drain_left_s: number | null;
  readonly device_ids: readonly string[];
  readonly running: number | null;
  readonly waiting: number | null;
  readonly kv_blocks_used: number | null;
  readonly kv_blocks_total: number | null;
  readonly handoffs: number | null;
  readonly fingerprint: string | null;
  readonly log_tail: readonly string[];
  readonly created_at: string;
  readonly phase_since: string;
}

export interface NodeView {
  readonly id: string;
  readonly name: string;
  readonly hostname: string;
  readonly address: string;
  readonly phase: NodePhase;
  readonly agent_version: string;
  readonly cpu_cores: number | null;
  readonly memory_total: number | null;
  readonly memory_used: number | null;
  readonly generation: number;
  readonly observed_generation: number;
  readonly joined_at: string;
  readonly last_report_at: string | null;
  readonly devices: readonly DeviceView[];
}

/** `worker_id`: who holds it. missing: its node no longer reports it; shown while somebody holds it. */
export interface DeviceView {
  readonly device_id: string;
  readonly kind: DeviceKind;
  readonly index: number;
  readonly name: string;
  readonly memory_total: number | null;
  readonly memory_used: number | null;
  readonly utilization: number | null;
  readonly temperature_c: number | null;
  readonly power_w: number | null;
  readonly cores: readonly number[];
  readonly worker_id: string | null;
  readonly missing: boolean;
}

/** progress: 0..1. before, after: what changes, in words ("2 replicas"). */
export interface OperationView {
  readonly id: string;
  readonly kind: OperationKind;
  readonly state: OperationState;
  readonly target: string;
  readonly title: string;
  readonly requested_by: string;
  readonly reason: string;
  readonly before: string;
  readonly after: string;
  readonly progress: number;
  readonly outcome: string;
  readonly started_at: string;
  readonly finished_at: string | null;
  readonly steps: readonly OperationStepView[];
}

export interface OperationStepView {
  readonly at: string;
  readonly text: string;
}

export interface ModelView {
  readonly name: string;
  readonly path: string;
  readonly description: string;
  readonly created_at: string;
}

/** One second of everything. second: unix seconds. */
export interface TelemetryFrame {
  readonly second: number;
  readonly deployments: readonly DeploymentFrame[];
}

/**
 * One second of one deployment. Latencies cover the last ten seconds, so that p99 means something; counters
 * cover this second alone, and are None when nobody who counts them was heard in it.
 */
export interface DeploymentFrame {
  readonly deployment: string;
  readonly ttft: Quantiles;
  readonly tpot: Quantiles;
  readonly itl: Quantiles;
  readonly first_gap: Quantiles;
  readonly e2e: Quantiles;
  readonly in_flight: number | null;
  readonly received: number | null;
  readonly completed: number | null;
  readonly failed: number | null;
  readonly rejected: number | null;
  readonly cancelled: number | null;
  readonly handoffs: number | null;
  readonly handoff_failures: number | null;
  readonly local_prefills: number | null;
  readonly prompt_tokens: number | null;
  readonly output_tokens: number | null;
  readonly pools: readonly PoolFrame[];
}

/** Seconds, read from merged histograms. `count` samples; None when there were none. */
export interface Quantiles {
  readonly count: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

/**
 * One second of one pool. None: no worker reported it in this second. ttft: of first tokens made here; tpot, itl:
 * of answers written here. Latencies cover the last ten seconds.
 */
export interface PoolFrame {
  readonly pool_id: string;
  readonly role: Role;
  readonly running: number | null;
  readonly waiting: number | null;
  readonly waiting_tokens: number | null;
  readonly kv_blocks_used: number | null;
  readonly kv_blocks_total: number | null;
  readonly ttft: Quantiles;
  readonly tpot: Quantiles;
  readonly itl: Quantiles;
  readonly queue: Quantiles;
  readonly transfer: Quantiles;
  readonly transfer_bytes: number | null;
  readonly output_tokens: number | null;
}

export interface EventMessage {
  readonly type: "event";
  readonly seq: string;
  readonly event: ConsoleEvent;
}

export interface DeploymentChanged {
  readonly type: "deployment.changed";
  readonly deployment: DeploymentView;
}

export interface DeploymentRemoved {
  readonly type: "deployment.removed";
  readonly name: string;
}

export interface NodeChanged {
  readonly type: "node.changed";
  readonly node: NodeView;
}

export interface OperationChanged {
  readonly type: "operation.changed";
  readonly operation: OperationView;
}

export interface ModelChanged {
  readonly type: "model.changed";
  readonly model: ModelView;
}

export interface TelemetryTick {
  readonly type: "telemetry.tick";
  readonly frame: TelemetryFrame;
}

/** The server can't follow the event stream at the moment; what is shown may be old. A snapshot follows later. */
export interface StaleMessage {
  readonly type: "stale";
  readonly reason: string;
}

export type ConsoleEvent = DeploymentChanged | DeploymentRemoved | NodeChanged | OperationChanged | ModelChanged | TelemetryTick;

export type ConsoleMessage = SnapshotMessage | EventMessage | StaleMessage;

export const DEFAULT_ENGINE_SETTINGS: EngineSettings = {
  dtype: "auto",
  max_model_len: null,
  kv_tokens: 16384,
  block_size: 16,
  prefill_chunk_tokens: 256,
  max_running: 32,
  threads: 0,
};
