"""What a plan is made from: one deployment and the fleet around it, as they are seen.

Everything is immutable and knows neither rows nor clocks: `seeing` builds a `Snapshot`, `plan` makes a `Plan` of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from inference.contracts.states import (
    DeviceKind,
    NodeDesired,
    NodePhase,
    PlacementStrategy,
    Role,
    WorkerDesired,
    WorkerPhase,
)


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """switch: value of its label "switch=..."; nodes with the same one are close to each other. Empty: not known."""

    name: str
    phase: NodePhase
    desired: NodeDesired = NodeDesired.ACTIVE
    switch: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """device: unique in the fleet. held_by: id of the worker it is given to. leaving: that worker is on its way out.

    name: the hardware's model ("NVIDIA H100 80GB HBM3"). memory_total: bytes; None is not known.
    labels: its own and its node's, "key=value" or "key".
    blocked: why no new worker may get it (maintenance, a fault), in a few words; whoever holds it keeps it.
    reserved_for: name of the only deployment that may get it. nvlink_peers: devices that it reaches by NVLink.
    """

    device: str
    node: str
    kind: DeviceKind
    index: int
    missing: bool
    held_by: str | None
    leaving: bool
    name: str = ""
    memory_total: int | None = None
    labels: frozenset[str] = frozenset()
    blocked: str = ""
    reserved_for: str = ""
    nvlink_peers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """busy: requests it computes or has waiting; None is not known, which is not idle. reason: what its node says of
    the phase, in words.

    handoffs: KV transfers under way, held KV that nobody fetched yet included.
    role: what its process is now, None while that is not known; another one than its pool's while it is being flipped.
    refused_role: the role that its process could not be switched to. revision: that it was started with.
    """

    worker_id: str
    name: str
    pool_id: str
    node: str
    desired: WorkerDesired
    phase: WorkerPhase
    phase_since: datetime
    created_at: datetime
    busy: int | None
    attempts: int = 0
    reason: str = ""
    handoffs: int | None = None
    role: Role | None = None
    refused_role: Role | None = None
    revision: int = 1


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """min_replicas: what replacing workers may not take the ready ones below. labels: a device must have all of them.
    tensor_parallel: devices of each worker, all on one node. bytes_needed: weights and KV on each device; None is not
    known, and then not checked. bytes_shared: the same on CPU slots, which share what their machine has."""

    pool_id: str
    role: Role
    replicas: int
    min_replicas: int = 0
    labels: frozenset[str] = frozenset()
    tensor_parallel: int = 1
    strategy: PlacementStrategy = PlacementStrategy.SPREAD
    bytes_needed: int | None = None
    bytes_shared: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One deployment with its pools and workers, and the whole fleet (nodes by name).

    stable: the revision that serves. candidate: the one being rolled out, to `candidate_share` (0..1) of the workers.
    can_flip: its engine switches a worker's role with the weights loaded.
    links: measured bytes/s from one node to another. budget: most devices that the deployment may hold at any moment
    (a rebalance sets it to what it held before); None: whatever is free.
    """

    deleting: bool
    pools: tuple[PoolSeen, ...]
    workers: tuple[WorkerSeen, ...]
    nodes: Mapping[str, NodeSeen]
    devices: tuple[DeviceSeen, ...]
    deployment: str = ""
    stable: int = 1
    candidate: int | None = None
    candidate_share: float = 0.0
    can_flip: bool = False
    links: Mapping[tuple[str, str], float] = field(default_factory=dict)
    budget: int | None = None
