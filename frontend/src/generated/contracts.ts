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
  NOT_IDLE: "not_idle",
  SWITCH_REFUSED: "switch_refused",
} as const;
export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/**
 * Why an answer ended. STOP: end-of-sequence or a stop string. LENGTH: the token limit. TOOL_CALLS: STOP, after
 * calls of tools, which routers find in the text.
 */
export const FinishReason = {
  STOP: "stop",
  LENGTH: "length",
  TOOL_CALLS: "tool_calls",
} as const;
export type FinishReason = (typeof FinishReason)[keyof typeof FinishReason];

/** Which run of a worker's process a log is of: the one now (or the last one), or the one before it. */
export const LogRun = {
  CURRENT: "current",
  PREVIOUS: "previous",
} as const;
export type LogRun = (typeof LogRun)[keyof typeof LogRun];

/**
 * What a person or a management token may do. Each may do all that the ones before it may.
 *
 * VIEWER: look at everything but secrets. OPERATOR: change what runs, and have tokens of one's own. ADMIN: also
 * people, everybody's tokens, and the audit.
 */
export const UserRole = {
  VIEWER: "viewer",
  OPERATOR: "operator",
  ADMIN: "admin",
} as const;
export type UserRole = (typeof UserRole)[keyof typeof UserRole];

/** Whose requests go first while there is not room for all: those of a class before all of the classes below it. */
export const PriorityClass = {
  HIGH: "high",
  STANDARD: "standard",
  LOW: "low",
} as const;
export type PriorityClass = (typeof PriorityClass)[keyof typeof PriorityClass];

/** Where the prompt was read: on a prefill worker (HANDOFF) or on the worker that writes the answer (LOCAL). */
export const PrefillPath = {
  HANDOFF: "handoff",
  LOCAL: "local",
} as const;
export type PrefillPath = (typeof PrefillPath)[keyof typeof PrefillPath];

/**
 * How KV travels from a prefill worker to a decode worker.
 *
 * SHARED_MEMORY: decode reads it where prefill's engine wrote it, on the same machine. TCP: over the network. NIXL:
 * by NVIDIA's transfer library, over what it finds between the two.
 */
export const KVTransport = {
  SHARED_MEMORY: "shared_memory",
  TCP: "tcp",
  NIXL: "nixl",
} as const;
export type KVTransport = (typeof KVTransport)[keyof typeof KVTransport];

/** GPU: seen through NVML. CPU: a slot of processor cores and memory on a node without a GPU. */
export const DeviceKind = {
  GPU: "gpu",
  CPU: "cpu",
} as const;
export type DeviceKind = (typeof DeviceKind)[keyof typeof DeviceKind];

/**
 * Weights of one model on one node, as the node sees them.
 *
 * WANTED ──> FETCHING ──> PRESENT        ABSENT: not there and not wanted
 *               └──> FAILED ──> FETCHING (asked again)
 */
export const FetchState = {
  ABSENT: "absent",
  WANTED: "wanted",
  FETCHING: "fetching",
  PRESENT: "present",
  FAILED: "failed",
} as const;
export type FetchState = (typeof FetchState)[keyof typeof FetchState];

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
 *                     ^  │         │        ^ │           │            ^
 *                     │  │         │        │ └─SWITCHING─┤            │
 *                     │  └────┬────┴────────┴─────────────┘            │
 *                     │       v (process died)                         │ (desired = stop, from any phase)
 *                     └── BACKOFF ──> FAILED                           │
 *                                     (attempts used up, or an error that a restart cannot mend)
 *     STOPPING ──> STARTING   (another role was wanted and the running process could not take it)
 *
 * ASSIGNED: the row exists, its node has not reported it yet (control plane).
 * STARTING: the process is launched and does not answer yet (agent).
 * LOADING: the process answers and loads weights (agent).
 * READY: weights are loaded and a token was generated (agent).
 * DRAINING: takes no new requests; finishes what it has (agent).
 * SWITCHING: has finished, changes its role with its weights loaded, and makes a token to prove it (agent).
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
  SWITCHING: "switching",
  STOPPING: "stopping",
  STOPPED: "stopped",
  BACKOFF: "backoff",
  FAILED: "failed",
  UNKNOWN: "unknown",
} as const;
export type WorkerPhase = (typeof WorkerPhase)[keyof typeof WorkerPhase];

/**
 * What becomes of a request whose KV did not reach the decode worker whole.
 *
 * FAIL: it fails. RETRY_PREFILL: another prefill worker, or another pair, reads the prompt. RECOMPUTE_ON_DECODE: the
 * decode worker reads it.
 */
export const HandoffFailure = {
  FAIL: "fail",
  RETRY_PREFILL: "retry_prefill",
  RECOMPUTE_ON_DECODE: "recompute_on_decode",
} as const;
export type HandoffFailure = (typeof HandoffFailure)[keyof typeof HandoffFailure];

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

/**
 * What the control plane wants of a node. Written by fleet services only.
 *
 *     ACTIVE <──> CORDONED <──> DRAINING ──> RETIRED
 *        ^──────────────────────────┘            (from any state; final)
 *
 * ACTIVE: may be given workers. CORDONED: keeps what it runs and is given nothing new.
 * DRAINING: its workers are moved elsewhere or drained; when none is left it is as good as cordoned.
 * RETIRED: no longer ours. Its workers count as gone, its credentials are void, its devices are never given out again.
 */
export const NodeDesired = {
  ACTIVE: "active",
  CORDONED: "cordoned",
  DRAINING: "draining",
  RETIRED: "retired",
} as const;
export type NodeDesired = (typeof NodeDesired)[keyof typeof NodeDesired];

/** What an operator asked for. */
export const OperationKind = {
  DEPLOY: "deploy",
  RESIZE: "resize",
  REBALANCE: "rebalance",
  FLIP: "flip",
  ROLL_OUT: "roll_out",
  ROLL_BACK: "roll_back",
  RESTART_WORKER: "restart_worker",
  DELETE: "delete",
  DRAIN_NODE: "drain_node",
  CORDON_NODE: "cordon_node",
  UNCORDON_NODE: "uncordon_node",
  RETIRE_NODE: "retire_node",
  MEASURE_NETWORK: "measure_network",
  FETCH_WEIGHTS: "fetch_weights",
} as const;
export type OperationKind = (typeof OperationKind)[keyof typeof OperationKind];

/**
 * Where an operator's intent stands. Written by the operations services.
 *
 *     QUEUED ──> RUNNING ──> SUCCEEDED | FAILED | SUPERSEDED | CANCELLED
 *       └──> CANCELLED | FAILED | SUPERSEDED
 *
 * QUEUED: waits, because its caller asked for that, until the operations it conflicts with have ended. FAILED from
 * there: its beginning was refused when its turn came.
 * FAILED: also a roll-out that was rolled back by itself. SUPERSEDED: a later operation took over.
 * CANCELLED: a person took it back; what was wanted before is wanted again.
 */
export const OperationState = {
  QUEUED: "queued",
  RUNNING: "running",
  SUCCEEDED: "succeeded",
  FAILED: "failed",
  SUPERSEDED: "superseded",
  CANCELLED: "cancelled",
} as const;
export type OperationState = (typeof OperationState)[keyof typeof OperationState];

/**
 * One step of an operation.
 *
 * RUNNING ──> DONE | FAILED | SKIPPED   (SKIPPED: it was not needed any more, or its operation ended first)
 */
export const StepState = {
  RUNNING: "running",
  DONE: "done",
  FAILED: "failed",
  SKIPPED: "skipped",
} as const;
export type StepState = (typeof StepState)[keyof typeof StepState];

/**
 * Where a model's files come from. DIRECTORY: on every node that serves it. HUB: an id of the model hub. WEB: an
 * http(s) address of an archive or a directory, as object stores have.
 */
export const ModelSource = {
  DIRECTORY: "directory",
  HUB: "hub",
  WEB: "web",
} as const;
export type ModelSource = (typeof ModelSource)[keyof typeof ModelSource];

/**
 * One closed request as the router saw it. Durations in seconds.
 *
 * segments: add up to ttft_s; what no worker explains is a segment of its own ("network").
 * handoff_s: first token until KV accepted; decode_wait_s: KV accepted until first decode step;
 * both lie after the first token, inside first_gap_s. transfer_s: in which handoff_bytes were sent, much of it while
 * the prompt was still read. transport: how they travelled.
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
  readonly transfer_s: number | null;
  readonly transport: KVTransport | null;
}

/** One stage of a request on its way to the first token. The segments of a request add up to its TTFT. */
export interface Segment {
  readonly name: string;
  readonly seconds: number;
}

/**
 * The longest waits for workers in seconds, where neither a router nor a deployment has others.
 *
 * connect_s: for a connection. reserve_s: for a ticket. first_token_s: of the leg that reads the prompt. idle_s:
 * between two events of a leg. total_s: a whole request.
 */
export interface Waits {
  readonly connect_s: number;
  readonly reserve_s: number;
  readonly first_token_s: number;
  readonly idle_s: number;
  readonly total_s: number;
}

/**
 * One write that went through: who did what to which target, from where, in which request. actor_kind: "user",
 * "token", "system" or "anonymous". before, after: the values that the write was about, without secrets; null where it
 * has none.
 */
export interface AuditEntryView {
  readonly id: number;
  readonly at: string;
  readonly actor: string;
  readonly actor_kind: string;
  readonly address: string;
  readonly request_id: string;
  readonly action: string;
  readonly target_kind: string;
  readonly target_id: string;
  readonly target_name: string;
  readonly before: unknown;
  readonly after: unknown;
  readonly reason: string;
}

/** A join token that can still be used, without the token itself, which nobody can read again. */
export interface JoinTokenOpenView {
  readonly id: number;
  readonly note: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly expires_at: string;
}

/** The network from one node to another as last measured; None is not measured. */
export interface LinkView {
  readonly source: string;
  readonly target: string;
  readonly bytes_per_s: number | null;
  readonly latency_s: number | null;
  readonly measured_at: string | null;
  readonly error: string;
}

/** kv_tokens, tensor_parallel, dtype: how it is to be run. devices: by type, GPUs first. */
export interface ModelFitView {
  readonly model: string;
  readonly kv_tokens: number;
  readonly tensor_parallel: number;
  readonly dtype: string;
  readonly devices: readonly DeviceFitView[];
}

/**
 * Whether a model fits on one type of device of the fleet.
 *
 * count: how many the fleet has. fits: None where the model or the device's memory is not known, and where it needs
 * more than its share on a CPU slot: it may have it while others leave theirs. All bytes are those
 * of one device. allowance_bytes: for the runtime, a rule of thumb. kv_tokens_max: the most tokens whose KV has room.
 */
export interface DeviceFitView {
  readonly name: string;
  readonly kind: DeviceKind;
  readonly memory_total: number | null;
  readonly count: number;
  readonly fits: boolean | null;
  readonly weights_bytes: number | null;
  readonly kv_bytes: number | null;
  readonly allowance_bytes: number | null;
  readonly needed_bytes: number | null;
  readonly kv_tokens_max: number | null;
}

/**
 * Weights of one model on one node. revision: of a hub id; empty: its default. wanted: the node is to fetch and
 * keep them; else it has them from before, or is not done letting go of them.
 */
export interface WeightsView {
  readonly node_id: string;
  readonly node_name: string;
  readonly model: string;
  readonly state: FetchState;
  readonly size_bytes: number | null;
  readonly fetched_bytes: number | null;
  readonly reason: string;
  readonly revision: string;
  readonly wanted: boolean;
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

/**
 * revision: number of the one that serves (stable). can_flip: whether its engine switches roles with its weights
 * loaded; where it can't, a flip is a warm restart.
 */
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
  readonly revision: number;
  readonly revisions: readonly RevisionView[];
  readonly rollout: RolloutView | null;
  readonly can_flip: boolean;
  readonly slo_ttft_s: number | null;
  readonly slo_tpot_s: number | null;
  readonly routing: RoutingPolicy;
}

/**
 * How one native engine is to run.
 *
 * dtype: "auto" (bfloat16 on GPU; float32 on CPU, but for processors on which bfloat16 is far faster), "float32",
 * "bfloat16" or "float16".
 * max_model_len: longest prompt + answer in tokens; None takes the model's own context length.
 * kv_tokens: size of the KV arena in tokens, rounded down to whole blocks.
 * block_size: tokens per KV block.
 * prefill_chunk_tokens: most prompt tokens computed in one step; 0 computes prompts whole.
 * max_running: most requests in one decode batch.
 * threads: torch CPU threads; 0 takes as many of the cores of the worker's devices as measurably help.
 * prefix_cache: whether requests share the KV of equal beginnings of their prompts.
 * itl_target_s: seconds that a step may take while answers run; less of waiting prompts is then read beside them. 0:
 * no target.
 * kv_transports: how KV may travel, the best first; TCP always may, where none of them can.
 * kv_streams: TCP connections that carry the KV of one prompt.
 * kv_wire_dtype: "bfloat16" halves the bytes of float32 KV on TCP; answers may then differ from those of one process,
 * so it is off ("") unless asked for.
 * kv_by_layer: each layer of a chunk leaves once it is computed, not the whole chunk afterwards; on CPUs only.
 */
export interface EngineSettings {
  readonly dtype: string;
  readonly max_model_len: number | null;
  readonly kv_tokens: number;
  readonly block_size: number;
  readonly prefill_chunk_tokens: number;
  readonly max_running: number;
  readonly threads: number;
  readonly prefix_cache: boolean;
  readonly itl_target_s: number;
  readonly kv_transports: readonly KVTransport[];
  readonly kv_streams: number;
  readonly kv_wire_dtype: string;
  readonly kv_by_layer: boolean;
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
  readonly labels: readonly string[];
  readonly tensor_parallel: number;
  readonly strategy: string;
}

/**
 * role: of its pool. observed_role: what its process is now; another one while it is being flipped.
 * revision: of the deployment, that it was started with. waiting_tokens: prompt tokens not yet computed. tickets:
 * requests that it keeps KV blocks for. kv_bytes_received, kv_bytes_sent: over hand-offs, since it has its role.
 */
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
  readonly revision: number;
  readonly observed_role: Role | null;
  readonly waiting_tokens: number | null;
  readonly tickets: number | null;
  readonly kv_bytes_received: number | null;
  readonly kv_bytes_sent: number | null;
}

/** One model and set of settings that the deployment runs or ran. model_revision: of a hub id; empty: the hub's. */
export interface RevisionView {
  readonly number: number;
  readonly model: string;
  readonly model_revision: string;
  readonly settings: EngineSettings;
  readonly note: string;
  readonly created_by: string;
  readonly created_at: string;
}

/**
 * A roll-out under way: from the revision that serves (stable) to the candidate.
 *
 * share: of the workers that shall run the candidate now, 0..1. ready: candidate workers that are ready.
 * error_rate, slo_miss_rate: of requests answered by the candidate since it began; None while there were none.
 * paused: it keeps its share until somebody resumes it.
 */
export interface RolloutView {
  readonly operation_id: string;
  readonly stable: number;
  readonly candidate: number;
  readonly share: number;
  readonly wanted: number;
  readonly ready: number;
  readonly total: number;
  readonly requests: number;
  readonly error_rate: number | null;
  readonly slo_miss_rate: number | null;
  readonly paused: boolean;
}

/**
 * local_prefill_auto: a decode worker reads a prompt itself where it can do so beside its answers within the
 * promised TPOT, by its measured pace, and not by the fixed limit; until both are known that counts. handoff_failure:
 * what becomes of a request whose KV did not arrive.
 *
 * connect_s and so on: the longest waits, as in `Waits`; None: the router's own.
 */
export interface RoutingPolicy {
  readonly local_prefill_auto: boolean;
  readonly handoff_failure: HandoffFailure;
  readonly connect_s: number | null;
  readonly reserve_s: number | null;
  readonly first_token_s: number | null;
  readonly idle_s: number | null;
  readonly total_s: number | null;
}

/**
 * clock_offset_s: the node's clock minus ours when its last report arrived, travel time included (F14).
 * labels: "key=value" or "key", for placement. cordon_reason: why it is not active, in the operator's words.
 * warnings: what an operator should see to, one sentence each (a clock that is off, shared broker credentials).
 */
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
  readonly desired: NodeDesired;
  readonly cordon_reason: string;
  readonly labels: readonly string[];
  readonly clock_offset_s: number | null;
  readonly driver: string;
  readonly interfaces: readonly string[];
  readonly engines: Readonly<Record<string, string>>;
  readonly disk_free: number | null;
  readonly disk_total: number | null;
  readonly workers: number;
  readonly warnings: readonly string[];
}

/**
 * `worker_id`: who holds it. missing: its node no longer reports it; shown while somebody holds it.
 *
 * id: the row, for changing it. reserved_for: name of the only deployment that may have it. fault: why its node says
 * that it is not to be used. maintenance: not to be used, for the reason in maintenance_note. The measured fields are
 * those of `DeviceReport`.
 */
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
  readonly id: number;
  readonly labels: readonly string[];
  readonly maintenance: boolean;
  readonly reserved_for: string;
  readonly memory_bandwidth_use: number | null;
  readonly power_limit_w: number | null;
  readonly parent: string | null;
  readonly nvlink_peers: readonly string[];
  readonly pcie_gen: number | null;
  readonly pcie_width: number | null;
  readonly ecc_uncorrected: number | null;
  readonly xid: number | null;
  readonly fault: string;
  readonly sm_use: number | null;
  readonly maintenance_note: string;
}

/**
 * progress: 0..1. before, after: what changes, in words ("2 replicas"). started_at: None while it is queued, and
 * for ever when it ended in the queue. target: name of the first of `targets`. queued_behind: ids of operations that
 * it waits for. retry_of: the operation that this one tries again. cancellable, retryable: what can be done now.
 */
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
  readonly started_at: string | null;
  readonly finished_at: string | null;
  readonly steps: readonly OperationStepView[];
  readonly targets: readonly OperationTargetView[];
  readonly preview: OperationPreview | null;
  readonly requested_at: string;
  readonly queued_behind: readonly string[];
  readonly retry_of: string | null;
  readonly cancellable: boolean;
  readonly retryable: boolean;
}

/** One thing that an operation did or does. cause: why it was done, or why it failed. */
export interface OperationStepView {
  readonly at: string;
  readonly text: string;
  readonly state: StepState;
  readonly finished_at: string | null;
  readonly cause: string;
}

/**
 * Something that an operation works on. kind: "deployment", "pool", "node", "worker" or "model". href: where the
 * console shows it.
 */
export interface OperationTargetView {
  readonly kind: string;
  readonly id: string;
  readonly name: string;
  readonly href: string;
}

/**
 * What an operation will do, worked out from the fleet as it is when asked.
 *
 * start, stop, flip: in words, one worker each ("decode-3 on node-2 gpu-1"). moments: the course of it.
 * devices_max: most devices used at any moment. budget: devices it may use. warnings: what people should know first
 * ("nothing serves between these two moments"). refusals: why part of it can't be done now.
 */
export interface OperationPreview {
  readonly start: readonly string[];
  readonly stop: readonly string[];
  readonly flip: readonly string[];
  readonly moments: readonly PreviewMoment[];
  readonly devices_max: number;
  readonly budget: number;
  readonly warnings: readonly string[];
  readonly refusals: readonly string[];
}

/**
 * One moment of a preview, in order. text: what happens then. devices: how many are in use by what is changed.
 * prefill, decode, unified: workers that take requests at that moment.
 */
export interface PreviewMoment {
  readonly text: string;
  readonly devices: number;
  readonly prefill: number;
  readonly decode: number;
  readonly unified: number;
}

/**
 * path: a directory as nodes see it, a hub id or an address; of an address, without what follows a question mark,
 * which may be a credential. revision: of a hub id, where a deployment names none; empty: the hub's default.
 *
 * shape: None is not known. shape_from: who told it ("its files here", "node alpha", "ada"). kv_bytes_per_token:
 * with 16-bit numbers, of a token that all layers keep; kv_bytes_of_context: of one request of full length, where
 * layers with a window forget what is outside of it.
 */
export interface ModelView {
  readonly name: string;
  readonly path: string;
  readonly description: string;
  readonly created_at: string;
  readonly source: ModelSource;
  readonly revision: string;
  readonly licence: string;
  readonly shape: ModelShape | null;
  readonly shape_from: string;
  readonly kv_bytes_per_token: number | null;
  readonly kv_bytes_of_context: number | null;
}

/**
 * None is "not known", never zero.
 *
 * architecture: `model_type` of its config.json. context_length: longest prompt + answer in tokens.
 * parameters: all of them, a tied embedding once; active_parameters: without the experts that a token does not use;
 * tied_parameters: of an embedding that is the output layer as well, 0 where it is not.
 * dtype: that its weights are stored in, as its config.json says. quantization: how they are quantised; empty: not.
 * weights_bytes: of its files, by data type as safetensors name it ("BF16").
 * kv: of all layers; layers that keep none are left out.
 * engines: kind of engine -> why it can't serve this model; empty: nothing is known against it.
 */
export interface ModelShape {
  readonly architecture: string;
  readonly context_length: number | null;
  readonly parameters: number | null;
  readonly active_parameters: number | null;
  readonly tied_parameters: number | null;
  readonly dtype: string;
  readonly quantization: string;
  readonly weights_bytes: Readonly<Record<string, number>> | null;
  readonly kv: readonly KvLayers[] | null;
  readonly engines: Readonly<Record<string, string>> | null;
}

/**
 * Layers that keep alike amounts of KV.
 *
 * heads: split over the devices of a tensor-parallel worker; with fewer heads than devices, some hold the same one.
 * head_elements: numbers that are kept per token and head, keys and values together (of a compressed cache, MLA: its
 * latent vector, with 1 head). window: the most tokens of one request that are kept; None: all of them.
 */
export interface KvLayers {
  readonly layers: number;
  readonly heads: number;
  readonly head_elements: number;
  readonly window: number | null;
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

export interface ModelRemoved {
  readonly type: "model.removed";
  readonly name: string;
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

export type ConsoleEvent = DeploymentChanged | DeploymentRemoved | NodeChanged | OperationChanged | ModelChanged | ModelRemoved | TelemetryTick;

export type ConsoleMessage = SnapshotMessage | EventMessage | StaleMessage;

export const DEFAULT_WAITS: Waits = {
  connect_s: 2.0,
  reserve_s: 10.0,
  first_token_s: 120.0,
  idle_s: 60.0,
  total_s: 1800.0,
};

export const DEFAULT_ENGINE_SETTINGS: EngineSettings = {
  dtype: "auto",
  max_model_len: null,
  kv_tokens: 16384,
  block_size: 16,
  prefill_chunk_tokens: 256,
  max_running: 32,
  threads: 0,
  prefix_cache: true,
  itl_target_s: 0.0,
  kv_transports: ["shared_memory", "tcp"],
  kv_streams: 2,
  kv_wire_dtype: "",
  kv_by_layer: false,
};

export const DEFAULT_ROUTING_POLICY: RoutingPolicy = {
  local_prefill_auto: false,
  handoff_failure: "retry_prefill",
  connect_s: null,
  reserve_s: null,
  first_token_s: null,
  idle_s: null,
  total_s: null,
};

export const DEFAULT_OPERATION_PREVIEW: OperationPreview = {
  start: [],
  stop: [],
  flip: [],
  moments: [],
  devices_max: 0,
  budget: 0,
  warnings: [],
  refusals: [],
};

export const DEFAULT_MODEL_SHAPE: ModelShape = {
  architecture: "",
  context_length: null,
  parameters: null,
  active_parameters: null,
  tied_parameters: null,
  dtype: "",
  quantization: "",
  weights_bytes: null,
  kv: null,
  engines: null,
};
