"""What the browser sees: views of the state, the snapshot, and the events that keep it current.

The console opens its socket, gets a `Snapshot`, then applies each event whose `seq` is newer. `seq` is the id of the
console stream ("<milliseconds>-<n>"); views are whole objects, so applying one is replacing one.
Times are ISO 8601 in UTC. `None` is "not known", never zero.
"""

from __future__ import annotations

import msgspec

from inference.contracts.specs import EngineSettings
from inference.contracts.states import (
    DeviceKind,
    NodePhase,
    OperationKind,
    OperationState,
    Role,
    WorkerDesired,
    WorkerPhase,
)


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """`worker_id`: who holds it. missing: its node no longer reports it; shown while somebody holds it."""

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


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
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


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """fingerprint_conflict: why its fingerprint keeps it from pairing (F06)."""

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


class DeploymentView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    model: str
    serving: bool
    status: str
    local_prefill_tokens: int
    settings: EngineSettings
    created_at: str
    deleting: bool
    pools: tuple[PoolView, ...]


class OperationStepView(msgspec.Struct, frozen=True, kw_only=True):
    at: str
    text: str


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """progress: 0..1. before, after: what changes, in words ("2 replicas")."""

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
    started_at: str
    finished_at: str | None
    steps: tuple[OperationStepView, ...]


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    path: str
    description: str
    created_at: str


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


class TelemetryTick(msgspec.Struct, frozen=True, kw_only=True, tag="telemetry.tick"):
    frame: TelemetryFrame


ConsoleEvent = DeploymentChanged | DeploymentRemoved | NodeChanged | OperationChanged | ModelChanged | TelemetryTick


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
