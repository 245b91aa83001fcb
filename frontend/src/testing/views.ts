// Views as the contracts describe them, with what a test cares about on top.

import {
  DEFAULT_ENGINE_SETTINGS,
  DEFAULT_OPERATION_PREVIEW,
  DEFAULT_ROUTING_POLICY,
  DeviceKind,
  KVTransport,
  ModelSource,
  NodeDesired,
  NodePhase,
  OperationKind,
  OperationState,
  PrefillPath,
  Role,
  UserRole,
  WorkerDesired,
  WorkerPhase,
  type ConsoleEvent,
  type DeploymentFrame,
  type DeploymentView,
  type DeviceView,
  type EventMessage,
  type ModelView,
  type NodeView,
  type OperationPreview,
  type OperationView,
  type PoolFrame,
  type PoolView,
  type Quantiles,
  type RequestTiming,
  type Snapshot,
  type SnapshotMessage,
  type TelemetryFrame,
  type WorkerView,
} from "@/generated/contracts";
import type { Who } from "@/lib/who";

const AT = "2026-10-31T12:00:00+00:00";

export function workerView(changes: Partial<WorkerView> = {}): WorkerView {
  return {
    id: "w1",
    name: "decode-1",
    pool_id: "pool-decode",
    node_id: "n1",
    node_name: "desk",
    role: Role.DECODE,
    desired: WorkerDesired.RUN,
    phase: WorkerPhase.READY,
    reason: "",
    attempts: 1,
    next_start_s: null,
    drain_left_s: null,
    device_ids: ["cpu-0"],
    running: 0,
    waiting: 0,
    kv_blocks_used: 0,
    kv_blocks_total: 1024,
    handoffs: 0,
    fingerprint: "f",
    log_tail: [],
    created_at: AT,
    phase_since: AT,
    revision: 1,
    observed_role: null,
    waiting_tokens: 0,
    tickets: 0,
    kv_bytes_received: 0,
    kv_bytes_sent: 0,
    ...changes,
  };
}

export function poolView(changes: Partial<PoolView> = {}): PoolView {
  return {
    id: "pool-decode",
    deployment: "small",
    role: Role.DECODE,
    replicas: 1,
    ready: 1,
    generation: 3,
    min_replicas: 0,
    max_replicas: 8,
    refusals: [],
    workers: [workerView()],
    labels: [],
    tensor_parallel: 1,
    strategy: "spread",
    ...changes,
  };
}

export function deploymentView(changes: Partial<DeploymentView> = {}): DeploymentView {
  return {
    name: "small",
    model: "small",
    serving: true,
    status: "",
    local_prefill_tokens: 64,
    settings: DEFAULT_ENGINE_SETTINGS,
    created_at: AT,
    deleting: false,
    pools: [poolView({ id: "pool-prefill", role: Role.PREFILL, workers: [] }), poolView()],
    revision: 1,
    revisions: [],
    rollout: null,
    can_flip: true,
    slo_ttft_s: null,
    slo_tpot_s: null,
    routing: DEFAULT_ROUTING_POLICY,
    ...changes,
  };
}

export function nodeView(changes: Partial<NodeView> = {}): NodeView {
  return {
    id: "n1",
    name: "desk",
    hostname: "desk",
    address: "10.0.0.4",
    phase: NodePhase.READY,
    agent_version: "0.1.0",
    cpu_cores: 8,
    memory_total: 1024,
    memory_used: null,
    generation: 1,
    observed_generation: 1,
    joined_at: AT,
    last_report_at: AT,
    devices: [],
    desired: NodeDesired.ACTIVE,
    cordon_reason: "",
    labels: [],
    clock_offset_s: null,
    driver: "",
    interfaces: [],
    engines: {},
    disk_free: null,
    disk_total: null,
    workers: 0,
    warnings: [],
    ...changes,
  };
}

export function deviceView(changes: Partial<DeviceView> = {}): DeviceView {
  return {
    id: 1,
    device_id: "gpu-0",
    kind: DeviceKind.GPU,
    index: 0,
    name: "NVIDIA L4",
    memory_total: 1024,
    memory_used: null,
    utilization: null,
    temperature_c: null,
    power_w: null,
    cores: [],
    worker_id: null,
    missing: false,
    labels: [],
    maintenance: false,
    maintenance_note: "",
    reserved_for: "",
    memory_bandwidth_use: null,
    sm_use: null,
    power_limit_w: null,
    parent: null,
    nvlink_peers: [],
    pcie_gen: null,
    pcie_width: null,
    ecc_uncorrected: null,
    xid: null,
    fault: "",
    ...changes,
  };
}

export function modelView(changes: Partial<ModelView> = {}): ModelView {
  return {
    name: "small",
    path: "/models/small",
    description: "",
    created_at: AT,
    source: ModelSource.DIRECTORY,
    revision: "",
    licence: "",
    shape: null,
    shape_from: "",
    kv_bytes_per_token: null,
    kv_bytes_of_context: null,
    ...changes,
  };
}

export function previewView(changes: Partial<OperationPreview> = {}): OperationPreview {
  return { ...DEFAULT_OPERATION_PREVIEW, ...changes };
}

export function whoView(changes: Partial<Who> = {}): Who {
  return { username: "ada", kind: "user", role: UserRole.ADMIN, grants: {}, only: null, local: true, ...changes };
}

export function operationView(changes: Partial<OperationView> = {}): OperationView {
  return {
    id: "o1",
    kind: OperationKind.RESIZE,
    state: OperationState.RUNNING,
    target: "small/decode",
    title: "Resize decode of small",
    requested_by: "admin",
    reason: "",
    before: "1 replica",
    after: "2 replicas",
    progress: 0,
    outcome: "",
    requested_at: AT,
    started_at: AT,
    finished_at: null,
    steps: [],
    targets: [],
    preview: null,
    queued_behind: [],
    retry_of: null,
    cancellable: false,
    retryable: false,
    ...changes,
  };
}

export const NO_SAMPLES: Quantiles = { count: 0, p50: null, p95: null, p99: null };

export function poolFrame(changes: Partial<PoolFrame> = {}): PoolFrame {
  return {
    pool_id: "pool-decode",
    role: Role.DECODE,
    running: null,
    waiting: null,
    waiting_tokens: null,
    kv_blocks_used: null,
    kv_blocks_total: null,
    ttft: NO_SAMPLES,
    tpot: NO_SAMPLES,
    itl: NO_SAMPLES,
    queue: NO_SAMPLES,
    transfer: NO_SAMPLES,
    transfer_bytes: 0,
    output_tokens: 0,
    ...changes,
  };
}

export function deploymentFrame(changes: Partial<DeploymentFrame> = {}): DeploymentFrame {
  return {
    deployment: "small",
    ttft: NO_SAMPLES,
    tpot: NO_SAMPLES,
    itl: NO_SAMPLES,
    first_gap: NO_SAMPLES,
    e2e: NO_SAMPLES,
    in_flight: null,
    received: 0,
    completed: 0,
    failed: 0,
    rejected: 0,
    cancelled: 0,
    handoffs: 0,
    handoff_failures: 0,
    local_prefills: 0,
    prompt_tokens: 0,
    output_tokens: 0,
    pools: [],
    ...changes,
  };
}

export function telemetryFrame(second: number, changes: Partial<DeploymentFrame> = {}): TelemetryFrame {
  return { second, deployments: [deploymentFrame(changes)] };
}

export function requestTiming(changes: Partial<RequestTiming> = {}): RequestTiming {
  return {
    request_id: "r1",
    deployment: "small",
    path: PrefillPath.HANDOFF,
    prefill_worker: "w0",
    decode_worker: "w1",
    prompt_tokens: 512,
    cached_tokens: 0,
    completion_tokens: 64,
    finish_reason: "stop",
    ttft_s: 0.2,
    tpot_s: 0.03,
    e2e_s: 2,
    segments: [
      { name: "router", seconds: 0.01 },
      { name: "prefill_queue", seconds: 0.04 },
      { name: "prefill", seconds: 0.14 },
      { name: "network", seconds: 0.01 },
    ],
    first_gap_s: 0.04,
    handoff_s: 0.01,
    handoff_bytes: 1024,
    decode_wait_s: 0.002,
    retries: 0,
    transfer_s: 0.004,
    transport: KVTransport.SHARED_MEMORY,
    ...changes,
  };
}

export function snapshotMessage(changes: Partial<Snapshot> = {}): SnapshotMessage {
  return {
    type: "snapshot",
    snapshot: { seq: "100-0", deployments: [], nodes: [], operations: [], models: [], frames: [], ...changes },
  };
}

export function eventMessage(seq: string, event: ConsoleEvent): EventMessage {
  return { type: "event", seq, event };
}
