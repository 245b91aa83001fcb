"""What the browser sees: views of the state, the snapshot, and the events that keep it current.

The console opens its socket, gets a `Snapshot`, then applies each event whose `seq` is newer. `seq` is the id of the
console stream ("<milliseconds>-<n>"); views are whole objects, so applying one is replacing one.
Times are ISO 8601 in UTC. `None` is "not known", never zero.
"""

from __future__ import annotations

from typing import Any

import msgspec

from inference.contracts.models import ModelShape
from inference.contracts.specs import EngineSettings
from inference.contracts.states import (
    DeviceKind,
    FetchState,
    ModelSource,
    NodeDesired,
    NodePhase,
    OperationKind,
    OperationState,
    Role,
    StepState,
    WorkerDesired,
    WorkerPhase,
)


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """`worker_id`: who holds it. missing: its node no longer reports it; shown while somebody holds it.

    id: the row, for changing it. reserved_for: name of the only deployment that may have it. fault: why its node says
    that it is not to be used. maintenance: not to be used, for the reason in maintenance_note. The measured fields are
    those of `DeviceReport`.
    """

    device_id: str
    kind: DeviceKind
    index: int
    name: str
    memory_total: int | None
    memory_used: int | None
    utilization: float | None
    temperature_c: float | None
    power_w: float | None
    cores: tuple[int, ...]
    worker_id: str | None
    missing: bool = False
    id: int = 0
    labels: tuple[str, ...] = ()
    maintenance: bool = False
    reserved_for: str = ""
    memory_bandwidth_use: float | None = None
    power_limit_w: float | None = None
    parent: str | None = None
    nvlink_peers: tuple[str, ...] = ()
    pcie_gen: int | None = None
    pcie_width: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    fault: str = ""
    sm_use: float | None = None
    maintenance_note: str = ""


class WeightsView(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of one model on one node. revision: of a hub id; empty: its default. wanted: the node is to fetch and
    keep them; else it has them from before, or is not done letting go of them."""

    node_id: str
    node_name: str
    model: str
    state: FetchState
    size_bytes: int | None
    fetched_bytes: int | None
    reason: str
    revision: str = ""
    wanted: bool = False


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The network from one node to another as last measured; None is not measured."""

    source: str
    target: str
    bytes_per_s: float | None
    latency_s: float | None
    measured_at: str | None
    error: str


class JoinTokenOpenView(msgspec.Struct, frozen=True, kw_only=True):
    """A join token that can still be used, without the token itself, which nobody can read again."""

    id: int
    note: str
    created_by: str
    created_at: str
    expires_at: str


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """clock_offset_s: the node's clock minus ours when its last report arrived, travel time included (F14).
    labels: "key=value" or "key", for placement. cordon_reason: why it is not active, in the operator's words.
    warnings: what an operator should see to, one sentence each (a clock that is off, shared broker credentials)."""

    id: str
    name: str
    hostname: str
    address: str
    phase: NodePhase
    agent_version: str
    cpu_cores: int | None
    memory_total: int | None
    memory_used: int | None
    generation: int
    observed_generation: int
    joined_at: str
    last_report_at: str | None
    devices: tuple[DeviceView, ...]
    desired: NodeDesired = NodeDesired.ACTIVE
    cordon_reason: str = ""
    labels: tuple[str, ...] = ()
    clock_offset_s: float | None = None
    driver: str = ""
    interfaces: tuple[str, ...] = ()
    engines: dict[str, str] = {}
    disk_free: int | None = None
    disk_total: int | None = None
    workers: int = 0
    warnings: tuple[str, ...] = ()


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """role: of its pool. observed_role: what its process is now; another one while it is being flipped.
    revision: of the deployment, that it was started with."""

    id: str
    name: str
    pool_id: str
    node_id: str
    node_name: str
    role: Role
    desired: WorkerDesired
    phase: WorkerPhase
    reason: str
    attempts: int
    next_start_s: float | None
    drain_left_s: float | None
    device_ids: tuple[str, ...]
    running: int | None
    waiting: int | None
    kv_blocks_used: int | None
    kv_blocks_total: int | None
    handoffs: int | None
    fingerprint: str | None
    log_tail: tuple[str, ...]
    created_at: str
    phase_since: str
    revision: int = 1
    observed_role: Role | None = None


class PoolView(msgspec.Struct, frozen=True, kw_only=True):
    """refusals: why workers that are wanted could not be placed, one sentence each."""

    id: str
    deployment: str
    role: Role
    replicas: int
    ready: int
    generation: int
    min_replicas: int
    max_replicas: int
    refusals: tuple[str, ...]
    workers: tuple[WorkerView, ...]
    labels: tuple[str, ...] = ()
    tensor_parallel: int = 1
    strategy: str = "spread"


class RevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """One model and set of settings that the deployment runs or ran. model_revision: of a hub id; empty: the hub's."""

    number: int
    model: str
    model_revision: str = ""
    settings: EngineSettings
    note: str
    created_by: str
    created_at: str


class RolloutView(msgspec.Struct, frozen=True, kw_only=True):
    """A roll-out under way: from the revision that serves (stable) to the candidate.

    share: of the workers that shall run the candidate now, 0..1. ready: candidate workers that are ready.
    error_rate, slo_miss_rate: of requests answered by the candidate since it began; None while there were none.
    paused: it keeps its share until somebody resumes it.
    """

    operation_id: str
    stable: int
    candidate: int
    share: float
    wanted: int
    ready: int
    total: int
    requests: int
    error_rate: float | None
    slo_miss_rate: float | None
    paused: bool = False


class DeploymentView(msgspec.Struct, frozen=True, kw_only=True):
    """revision: number of the one that serves (stable). can_flip: whether its engine switches roles with its weights
    loaded; where it can't, a flip is a warm restart."""

    name: str
    model: str
    serving: bool
    status: str
    local_prefill_tokens: int
    settings: EngineSettings
    created_at: str
    deleting: bool
    pools: tuple[PoolView, ...]
    revision: int = 1
    revisions: tuple[RevisionView, ...] = ()
    rollout: RolloutView | None = None
    can_flip: bool = True
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None


class OperationStepView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an operation did or does. cause: why it was done, or why it failed."""

    at: str
    text: str
    state: StepState = StepState.DONE
    finished_at: str | None = None
    cause: str = ""


class PreviewMoment(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a preview, in order. text: what happens then. devices: how many are in use by what is changed.
    prefill, decode, unified: workers that take requests at that moment."""

    text: str
    devices: int
    prefill: int
    decode: int
    unified: int = 0


class OperationPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation will do, worked out from the fleet as it is when asked.

    start, stop, flip: in words, one worker each ("decode-3 on node-2 gpu-1"). moments: the course of it.
    devices_max: most devices used at any moment. budget: devices it may use. warnings: what people should know first
    ("nothing serves between these two moments"). refusals: why part of it can't be done now.
    """

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    flip: tuple[str, ...] = ()
    moments: tuple[PreviewMoment, ...] = ()
    devices_max: int = 0
    budget: int = 0
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()


class OperationTargetView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that an operation works on. kind: "deployment", "pool", "node", "worker" or "model". href: where the
    console shows it."""

    kind: str
    id: str
    name: str
    href: str = ""


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """progress: 0..1. before, after: what changes, in words ("2 replicas"). started_at: None while it is queued, and
    for ever when it ended in the queue. target: name of the first of `targets`. queued_behind: ids of operations that
    it waits for. retry_of: the operation that this one tries again. cancellable, retryable: what can be done now."""

    id: str
    kind: OperationKind
    state: OperationState
    target: str
    title: str
    requested_by: str
    reason: str
    before: str
    after: str
    progress: float
    outcome: str
    started_at: str | None
    finished_at: str | None
    steps: tuple[OperationStepView, ...]
    targets: tuple[OperationTargetView, ...] = ()
    preview: OperationPreview | None = None
    requested_at: str = ""
    queued_behind: tuple[str, ...] = ()
    retry_of: str | None = None
    cancellable: bool = False
    retryable: bool = False


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """path: a directory as nodes see it, a hub id or an address; of an address, without what follows a question mark,
    which may be a credential. revision: of a hub id, where a deployment names none; empty: the hub's default.

    shape: None is not known. shape_from: who told it ("its files here", "node alpha", "ada"). kv_bytes_per_token:
    with 16-bit numbers, of a token that all layers keep; kv_bytes_of_context: of one request of full length, where
    layers with a window forget what is outside of it.
    """

    name: str
    path: str
    description: str
    created_at: str
    source: ModelSource = ModelSource.DIRECTORY
    revision: str = ""
    licence: str = ""
    shape: ModelShape | None = None
    shape_from: str = ""
    kv_bytes_per_token: int | None = None
    kv_bytes_of_context: int | None = None


class DeviceFitView(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model fits on one type of device of the fleet.

    count: how many the fleet has. fits: None where the model or the device's memory is not known, and where it needs
    more than its share on a CPU slot: it may have it while others leave theirs. All bytes are those
    of one device. allowance_bytes: for the runtime, a rule of thumb. kv_tokens_max: the most tokens whose KV has room.
    """

    name: str
    kind: DeviceKind
    memory_total: int | None
    count: int
    fits: bool | None
    weights_bytes: int | None
    kv_bytes: int | None
    allowance_bytes: int | None
    needed_bytes: int | None
    kv_tokens_max: int | None


class ModelFitView(msgspec.Struct, frozen=True, kw_only=True):
    """kv_tokens, tensor_parallel, dtype: how it is to be run. devices: by type, GPUs first."""

    model: str
    kv_tokens: int
    tensor_parallel: int
    dtype: str
    devices: tuple[DeviceFitView, ...]


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """One write that went through: who did what to which target, from where, in which request. actor_kind: "user",
    "token", "system" or "anonymous". before, after: the values that the write was about, without secrets; null where it
    has none."""

    id: int
    at: str
    actor: str
    actor_kind: str
    address: str
    request_id: str
    action: str
    target_kind: str
    target_id: str
    target_name: str
    before: Any
    after: Any
    reason: str


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, read from merged histograms. `count` samples; None when there were none."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class PoolFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of one pool. None: no worker reported it in this second. ttft: of first tokens made here; tpot, itl:
    of answers written here. Latencies cover the last ten seconds."""

    pool_id: str
    role: Role
    running: float | None
    waiting: float | None
    waiting_tokens: float | None
    kv_blocks_used: float | None
    kv_blocks_total: float | None
    ttft: Quantiles
    tpot: Quantiles
    itl: Quantiles
    queue: Quantiles
    transfer: Quantiles
    transfer_bytes: int | None
    output_tokens: int | None


class DeploymentFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of one deployment. Latencies cover the last ten seconds, so that p99 means something; counters
    cover this second alone, and are None when nobody who counts them was heard in it."""

    deployment: str
    ttft: Quantiles
    tpot: Quantiles
    itl: Quantiles
    first_gap: Quantiles
    e2e: Quantiles
    in_flight: float | None
    received: int | None
    completed: int | None
    failed: int | None
    rejected: int | None
    cancelled: int | None
    handoffs: int | None
    handoff_failures: int | None
    local_prefills: int | None
    prompt_tokens: int | None
    output_tokens: int | None
    pools: tuple[PoolFrame, ...]


class TelemetryFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One second of everything. second: unix seconds."""

    second: int
    deployments: tuple[DeploymentFrame, ...]


class DeploymentChanged(msgspec.Struct, frozen=True, kw_only=True, tag="deployment.changed"):
    deployment: DeploymentView


class DeploymentRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="deployment.removed"):
    name: str


class NodeChanged(msgspec.Struct, frozen=True, kw_only=True, tag="node.changed"):
    node: NodeView


class OperationChanged(msgspec.Struct, frozen=True, kw_only=True, tag="operation.changed"):
    operation: OperationView


class ModelChanged(msgspec.Struct, frozen=True, kw_only=True, tag="model.changed"):
    model: ModelView


class ModelRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="model.removed"):
    name: str


class TelemetryTick(msgspec.Struct, frozen=True, kw_only=True, tag="telemetry.tick"):
    frame: TelemetryFrame


ConsoleEvent = (
    DeploymentChanged | DeploymentRemoved | NodeChanged | OperationChanged | ModelChanged | ModelRemoved | TelemetryTick
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the console shows. operations: the newest 50. frames: the last ten minutes."""

    seq: str
    deployments: tuple[DeploymentView, ...]
    nodes: tuple[NodeView, ...]
    operations: tuple[OperationView, ...]
    models: tuple[ModelView, ...]
    frames: tuple[TelemetryFrame, ...]


class SnapshotMessage(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """First message on a socket, and again whenever events may have been missed."""

    snapshot: Snapshot


class EventMessage(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    seq: str
    event: ConsoleEvent


class StaleMessage(msgspec.Struct, frozen=True, kw_only=True, tag="stale"):
    """The server can't follow the event stream at the moment; what is shown may be old. A snapshot follows later."""

    reason: str


ConsoleMessage = SnapshotMessage | EventMessage | StaleMessage
