"""Hand-made and random snapshots for the tests of the plan, and what a plan does to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pools.plan import DeviceSeen, Move, NodeSeen, Plan, PoolSeen, Snapshot, WorkerSeen
from inference.contracts.states import DeviceKind, NodePhase, Role, WorkerDesired, WorkerPhase

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def worker(
    name: str,
    phase: WorkerPhase = WorkerPhase.READY,
    *,
    desired: WorkerDesired = WorkerDesired.RUN,
    node: str = "a",
    busy: int | None = 0,
    age_s: float = 60.0,
) -> WorkerSeen:
    """A worker of the pool that its name begins with ("decode-1")."""
    return WorkerSeen(
        worker_id=name,
        name=name,
        pool_id=name.split("-")[0],
        node=node,
        desired=desired,
        phase=phase,
        phase_since=NOW - timedelta(seconds=age_s),
        created_at=NOW - timedelta(seconds=age_s),
        busy=busy,
    )


def device(name: str, held_by: str | None = None, *, missing: bool = False, leaving: bool = False) -> DeviceSeen:
    """A CPU slot: "a/0" is slot 0 of node a."""
    node, _, index = name.partition("/")
    return DeviceSeen(
        device=name,
        node=node,
        kind=DeviceKind.CPU,
        index=int(index),
        missing=missing,
        held_by=held_by,
        leaving=leaving,
    )


def fleet(
    *workers: WorkerSeen,
    prefill: int | None = None,
    decode: int | None = None,
    slots: int = 4,
    lost: tuple[str, ...] = (),
    nodes: tuple[str, ...] = ("a",),
    deleting: bool = False,
) -> Snapshot:
    """`nodes` with `slots` CPU slots each; every worker holds the next slot of its node. A pool whose number is left
    out does not exist."""
    free = {node: [device(f"{node}/{index}") for index in range(slots)] for node in nodes}
    held = []
    for each in workers:
        slot = free[each.node].pop(0)
        held.append(replace(slot, held_by=each.worker_id, leaving=each.desired != WorkerDesired.RUN))
    pools = [
        PoolSeen(pool_id=role, role=role, replicas=replicas)
        for role, replicas in ((Role.PREFILL, prefill), (Role.DECODE, decode))
        if replicas is not None
    ]
    return Snapshot(
        deleting=deleting,
        pools=tuple(pools),
        workers=workers,
        nodes={node: NodeSeen(node, NodePhase.LOST if node in lost else NodePhase.READY) for node in nodes},
        devices=(*held, *(slot for slots_of_node in free.values() for slot in slots_of_node)),
    )


def applied(snapshot: Snapshot, plan: Plan, *, serial: int = 0) -> Snapshot:
    """The snapshot once `plan` was written down and before any node reported."""
    desired = dict.fromkeys(_ids(plan.undrain), WorkerDesired.RUN)
    desired |= dict.fromkeys(_ids(plan.drain), WorkerDesired.DRAIN)
    desired |= dict.fromkeys(_ids(plan.stop), WorkerDesired.STOP)
    removed = set(_ids(plan.remove))
    workers = [
        replace(each, desired=desired.get(each.worker_id, each.desired))
        for each in snapshot.workers
        if each.worker_id not in removed
    ]
    node_of = {each.device: each.node for each in snapshot.devices}
    holders = {each.device: each.held_by for each in snapshot.devices if each.held_by not in removed}
    for number, start in enumerate(plan.start):
        born = worker(f"{start.pool_id}-new{serial}.{number}", WorkerPhase.ASSIGNED, node=node_of[start.devices[0]])
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
        if each.desired == WorkerDesired.RUN and snapshot.nodes[each.node].phase != NodePhase.LOST
    )


def _ids(moves: tuple[Move, ...]) -> list[str]:
    return [move.worker_id for move in moves]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Any state that rows can be in: every desired with every phase, nodes silent, devices missing or of two kinds,
    devices held by other deployments."""
    nodes = {
        name: NodeSeen(
            name, draw(st.sampled_from([NodePhase.READY, NodePhase.READY, NodePhase.LOST, NodePhase.JOINING]))
        )
        for name in "abc"[: draw(st.integers(1, 3))]
    }
    workers: list[WorkerSeen] = []
    devices: list[DeviceSeen] = []
    for node in nodes:
        kind = draw(st.sampled_from(DeviceKind))
        for index in range(draw(st.integers(0, 4))):
            holder = draw(st.sampled_from(["nobody", "nobody", "prefill", "decode", "another"]))
            held_by, leaving = None, False
            if holder == "another":
                held_by, leaving = f"another-{node}{index}", draw(st.booleans())
            elif holder != "nobody":
                born = draw(_workers(name=f"{holder}-{node}{index}", node=node))
                workers.append(born)
                held_by, leaving = born.worker_id, born.desired != WorkerDesired.RUN
            devices.append(
                DeviceSeen(
                    device=f"{node}/{index}",
                    node=node,
                    kind=kind,
                    index=index,
                    missing=draw(st.integers(0, 9)) == 0,
                    held_by=held_by,
                    leaving=leaving,
                )
            )
    pools = [PoolSeen(pool_id=role, role=role, replicas=draw(st.integers(0, 5))) for role in ("prefill", "decode")]
    return Snapshot(
        deleting=draw(st.integers(0, 4)) == 0,
        pools=tuple(replace(pool, role=Role(pool.role)) for pool in pools),
        workers=tuple(workers),
        nodes=nodes,
        devices=tuple(devices),
    )


@st.composite
def _workers(draw: st.DrawFn, *, name: str, node: str) -> WorkerSeen:
    return worker(
        name,
        draw(st.sampled_from(WorkerPhase)),
        desired=draw(st.sampled_from(WorkerDesired)),
        node=node,
        busy=draw(st.none() | st.integers(0, 9)),
        age_s=draw(st.sampled_from([1.0, 100.0, 1000.0])),
    )


def of_every_state(claim: Callable[[Snapshot], None]) -> Callable[[], None]:
    """Try `claim` on many snapshots, the same in every run; a busy machine may take its time."""
    return settings(deadline=None, derandomize=True, max_examples=200)(given(snapshots())(claim))
