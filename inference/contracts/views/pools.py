"""Deployments, their revisions and pools, and the workers in these."""

from __future__ import annotations

import msgspec

from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role, WorkerDesired, WorkerPhase


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """role: of its pool. observed_role: what its process is now; another one while it is being flipped.
    revision: of the deployment, that it was started with. waiting_tokens: prompt tokens not yet computed. tickets:
    requests that it keeps KV blocks for. kv_bytes_received, kv_bytes_sent: over hand-offs, since it has its role."""

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
    waiting_tokens: int | None = None
    tickets: int | None = None
    kv_bytes_received: int | None = None
    kv_bytes_sent: int | None = None


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
    routing: RoutingPolicy = RoutingPolicy()
