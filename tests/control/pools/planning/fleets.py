"""Hand-made and random snapshots for the tests of the plan, and what a plan does to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pools.planning.changes import Move, Plan
from controlplane.pools.planning.snapshot import DeviceSeen, NodeSeen, PoolSeen, Snapshot, WorkerSeen
from inference.contracts.states import (
    DeviceKind,
    NodeDesired,
    NodePhase,
    PlacementStrategy,
    Role,
    WorkerDesired,
    WorkerPhase,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def worker(
    name: str,
    phase: WorkerPhase = WorkerPhase.READY,
    *,
    desired: WorkerDesired = WorkerDesired.RUN,
    node: str = "a",
    busy: int | None = 0,
    age_s: float = 60.0,
    revision: int = 1,
    **more: Any,
) -> WorkerSeen:
    """A worker of the pool that its name begins with ("decode-1"), in that role unless `more` says otherwise."""
    pool_id = name.split("-")[0]
    seen = WorkerSeen(
        worker_id=name,
        name=name,
        pool_id=pool_id,
        node=node,
        desired=desired,
        phase=phase,
        phase_since=NOW - timedelta(seconds=age_s),
        created_at=NOW - timedelta(seconds=age_s),
        busy=busy,
        revision=revision,
        role=Role(pool_id) if pool_id in set(Role) else None,
    )
    return replace(seen, **more)


def device(
    place: str, /, held_by: str | None = None, *, missing: bool = False, leaving: bool = False, **more: Any
) -> DeviceSeen:
    """A CPU slot: "a/0" is slot 0 of node a."""
    node, _, index = place.partition("/")
    seen = DeviceSeen(
        device=place,
        node=node,
        kind=DeviceKind.CPU,
        index=int(index),
        missing=missing,
        held_by=held_by,
        leaving=leaving,
    )
    return replace(seen, **more)


def fleet(
    *workers: WorkerSeen,
    prefill: int | None = None,
    decode: int | None = None,
    slots: int = 4,
    lost: tuple[str, ...] = (),
    nodes: tuple[str, ...] = ("a",),
    deleting: bool = False,
    desired: Mapping[str, NodeDesired] | None = None,
    pool: Mapping[str, Any] | None = None,
    **more: Any,
) -> Snapshot:
    """`nodes` with `slots` CPU slots each; every worker holds the next slot of its node. A pool whose number is left
    out does not exist. desired: of nodes. pool: what both pools are besides. more: of the snapshot."""
    free = {node: [device(f"{node}/{index}") for index in range(slots)] for node in nodes}
    held = []
    for each in workers:
        slot = free[each.node].pop(0)
        held.append(replace(slot, held_by=each.worker_id, leaving=each.desired != WorkerDesired.RUN))
    pools = [
        PoolSeen(pool_id=role, role=role, replicas=replicas, **(pool or {}))
        for role, replicas in ((Role.PREFILL, prefill), (Role.DECODE, decode))
        if replicas is not None
    ]
    wanted = desired or {}
    seen = Snapshot(
        deleting=deleting,
        pools=tuple(pools),
        workers=workers,
        nodes={
            node: NodeSeen(
                node, NodePhase.LOST if node in lost else NodePhase.READY, wanted.get(node, NodeDesired.ACTIVE)
            )
            for node in nodes
        },
        devices=(*held, *(slot for slots_of_node in free.values() for slot in slots_of_node)),
    )
    return replace(seen, **more)


def applied(snapshot: Snapshot, plan: Plan, *, serial: int = 0) -> Snapshot:
    """The snapshot once `plan` was written down and before any node reported."""
    desired = dict.fromkeys(_ids(plan.undrain), WorkerDesired.RUN)
    desired |= dict.fromkeys(_ids(plan.drain), WorkerDesired.DRAIN)
    desired |= dict.fromkeys(_ids(plan.stop), WorkerDesired.STOP)
    desired |= dict.fromkeys((flip.worker_id for flip in plan.flip), WorkerDesired.RUN)
    pools = {flip.worker_id: flip.to_pool for flip in plan.flip}
    removed = set(_ids(plan.remove))
    workers = [
        replace(
            each,
            desired=desired.get(each.worker_id, each.desired),
            pool_id=pools.get(each.worker_id, each.pool_id),
        )
        for each in snapshot.workers
        if each.worker_id not in removed
    ]
    node_of = {each.device: each.node for each in snapshot.devices}
    holders = {each.device: each.held_by for each in snapshot.devices if each.held_by not in removed}
    for number, start in enumerate(plan.start):
        name = f"{start.pool_id}-new{serial}.{number}"
        born = worker(name, WorkerPhase.ASSIGNED, node=node_of[start.devices[0]], revision=start.revision, role=None)
        workers.append(replace(born, created_at=NOW, busy=None))
        holders |= dict.fromkeys(start.devices, born.worker_id)
    leaving = {each.worker_id for each in workers if each.desired != WorkerDesired.RUN}
    leaving |= {each.held_by for each in snapshot.devices if each.leaving and each.held_by not in desired}
    devices = tuple(
        replace(each, held_by=holders.get(each.device), leaving=holders.get(each.device) in leaving)
        for each in snapshot.devices
    )
    return replace(snapshot, workers=tuple(workers), devices=devices)


def places(snapshot: Snapshot) -> Counter[str]:
    """Workers that fill a place, by pool."""
    return Counter(
        each.pool_id
        for each in snapshot.workers
        if each.desired == WorkerDesired.RUN
        and snapshot.nodes[each.node].phase != NodePhase.LOST
        and snapshot.nodes[each.node].desired != NodeDesired.RETIRED
    )


def _ids(moves: tuple[Move, ...]) -> list[str]:
    return [move.worker_id for move in moves]


@st.composite
def snapshots(draw: st.DrawFn, *, plain: bool = False) -> Snapshot:
    """Any state that rows can be in: every desired with every phase, nodes silent or on their way out, devices missing,
    blocked, reserved, of two kinds, or held by other deployments; workers of any revision and role.

    plain: one revision, no flips, all nodes active, devices that differ in nothing but their kind.
    """
    nodes = {name: draw(_nodes(name, plain)) for name in "abc"[: draw(st.integers(1, 3))]}
    size = 1 if plain else draw(st.sampled_from([1, 1, 2]))
    workers: list[WorkerSeen] = []
    devices: list[DeviceSeen] = []
    for node in nodes:
        kind = draw(st.sampled_from(DeviceKind))
        index = 0
        for _ in range(draw(st.integers(0, 4 // size))):
            holder = draw(st.sampled_from(["nobody", "nobody", "prefill", "decode", "another"]))
            held_by, leaving = None, False
            if holder == "another":
                held_by, leaving = f"another-{node}{index}", draw(st.booleans())
            elif holder != "nobody":
                born = draw(_workers(f"{holder}-{node}{index}", node, plain))
                workers.append(born)
                held_by, leaving = born.worker_id, born.desired != WorkerDesired.RUN
            for _ in range(size):
                seen = draw(_devices(f"{node}/{index}", plain))
                devices.append(replace(seen, kind=kind, held_by=held_by, leaving=leaving))
                index += 1
    candidate = None if plain else draw(st.sampled_from([None, None, 2]))
    return Snapshot(
        deleting=draw(st.integers(0, 4)) == 0,
        pools=tuple(draw(_pools(role, size, plain)) for role in (Role.PREFILL, Role.DECODE)),
        workers=tuple(workers),
        nodes=nodes,
        devices=tuple(devices),
        deployment="ours",
        candidate=candidate,
        candidate_share=0.0 if candidate is None else draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        can_flip=not plain and draw(st.booleans()),
        budget=None if plain else draw(st.none() | st.integers(0, 8)),
    )


@st.composite
def _nodes(draw: st.DrawFn, name: str, plain: bool) -> NodeSeen:
    phase = draw(st.sampled_from([NodePhase.READY, NodePhase.READY, NodePhase.LOST, NodePhase.JOINING]))
    if plain:
        return NodeSeen(name, phase)
    desired = draw(st.sampled_from([NodeDesired.ACTIVE, NodeDesired.ACTIVE, *NodeDesired]))
    return NodeSeen(name, phase, desired, switch=draw(st.sampled_from(["", "s"])))


@st.composite
def _devices(draw: st.DrawFn, name: str, plain: bool) -> DeviceSeen:
    missing = draw(st.integers(0, 9)) == 0
    if plain:
        return device(name, missing=missing)
    return device(
        name,
        missing=missing,
        blocked=draw(st.sampled_from(["", "", "", "", "maintenance"])),
        reserved_for=draw(st.sampled_from(["", "", "", "", "ours", "others"])),
        labels=draw(st.sampled_from([frozenset({"x"}), frozenset({"x"}), frozenset()])),
        memory_total=draw(st.sampled_from([None, 40, 80, 80])),
        name=draw(st.sampled_from(["", "", "NVIDIA H20"])),
    )


@st.composite
def _pools(draw: st.DrawFn, role: Role, size: int, plain: bool) -> PoolSeen:
    replicas = draw(st.integers(0, 5))
    if plain:
        return PoolSeen(pool_id=role, role=role, replicas=replicas)
    return PoolSeen(
        pool_id=role,
        role=role,
        replicas=replicas,
        min_replicas=draw(st.integers(0, replicas)),
        labels=draw(st.sampled_from([frozenset(), frozenset(), frozenset({"x"})])),
        tensor_parallel=size,
        strategy=draw(st.sampled_from(PlacementStrategy)),
        bytes_needed=draw(st.sampled_from([None, None, 80])),
    )


@st.composite
def _workers(draw: st.DrawFn, name: str, node: str, plain: bool) -> WorkerSeen:
    born = worker(
        name,
        draw(st.sampled_from(WorkerPhase)),
        desired=draw(st.sampled_from(WorkerDesired)),
        node=node,
        busy=draw(st.none() | st.integers(0, 9)),
        age_s=draw(st.sampled_from([1.0, 100.0, 1000.0])),
    )
    if plain:
        return born
    return replace(
        born,
        role=draw(st.sampled_from([born.role, born.role, Role.PREFILL, Role.DECODE, None])),
        refused_role=draw(st.sampled_from([None, None, None, Role.PREFILL, Role.DECODE])),
        revision=draw(st.sampled_from([1, 1, 2, 3])),
    )


def of_every_state(claim: Callable[[Snapshot], None]) -> Callable[[], None]:
    """Try `claim` on many snapshots, the same in every run; a busy machine may take its time."""
    return settings(deadline=None, derandomize=True, max_examples=300)(given(snapshots())(claim))


def of_every_plain_state(claim: Callable[[Snapshot], None]) -> Callable[[], None]:
    """The same for deployments of one revision on active nodes."""
    return settings(deadline=None, derandomize=True, max_examples=200)(given(snapshots(plain=True))(claim))
