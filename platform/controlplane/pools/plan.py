"""What to change for one deployment, as a pure function of what is wanted and what is seen.

A plan depends on the present state alone (level-triggered), so a lost or doubled trigger changes nothing, and a
satisfied deployment gets an empty plan. `apply` turns a plan into rows.

- A worker fills a place of its pool while it is wanted (desired = run) and not on a silent node. One that FAILED keeps
  its place: an operator restarts it; replacing it for ever would only fail for ever. One that is STOPPED and still
  wanted keeps it too: its agent went down in order, and starts it again when it is back.
- Too few: drains are cancelled first (F09), then workers start on devices that are free now, so that the fleet is never
  over-committed, not even for a moment (F22). A worker on a silent node is replaced elsewhere, but its device stays
  taken until the node says what runs there (F10).
- Too many: what serves least goes first. A worker that has come up is drained, any other is stopped at once.
- A drain with nothing left to finish becomes a stop; its deadline is kept by the agent, on a clock that only goes
  forward. A worker that is gone and not wanted is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.pools.plan_types import (
    DeviceSeen,
    Flip,
    Move,
    NodeSeen,
    Plan,
    PoolSeen,
    Snapshot,
    Start,
    Unmet,
    WorkerSeen,
)
from inference.contracts.states import DeviceKind, NodePhase, WorkerDesired, WorkerPhase
from inference.planning.placement import Slot, choose_kind, choose_slot

__all__ = [
    "DeviceSeen",
    "Flip",
    "Move",
    "NodeSeen",
    "Plan",
    "PoolSeen",
    "Snapshot",
    "Start",
    "Unmet",
    "WorkerSeen",
    "plan",
]

#: Phases in which a worker may have answers to finish; UNKNOWN may be any of them.
_MAY_SERVE = frozenset({WorkerPhase.READY, WorkerPhase.DRAINING, WorkerPhase.UNKNOWN})

#: Phases in which a drained worker is still on its way out by itself.
_LEAVING = _MAY_SERVE | {WorkerPhase.STOPPING}

_GONE = frozenset({WorkerPhase.STOPPED})

_NOUN = {DeviceKind.GPU: "GPU", DeviceKind.CPU: "CPU slot", None: "device"}


@dataclass(frozen=True, slots=True)
class _Scaling:
    """What one pool's present workers shall do, and how many are missing after that."""

    undrain: list[Move]
    drain: list[Move]
    stop: list[Move]
    remove: list[Move]
    missing: int


def plan(snapshot: Snapshot) -> Plan:
    """What to change so that every pool gets its replicas, or a deleted deployment loses its workers."""
    scalings = {pool.pool_id: _scale(pool, snapshot) for pool in snapshot.pools}
    undrain = [move for scaling in scalings.values() for move in scaling.undrain]
    drain = [move for scaling in scalings.values() for move in scaling.drain]
    stop = [move for scaling in scalings.values() for move in scaling.stop]
    remove = [move for scaling in scalings.values() for move in scaling.remove]
    gone = {move.worker_id for move in remove}
    leaving = {device.held_by for device in snapshot.devices if device.held_by and device.leaving}
    leaving |= {move.worker_id for move in (*drain, *stop)}
    start, wait, refused = _place(
        snapshot,
        gone=gone,
        leaving=leaving - gone - {move.worker_id for move in undrain},
        missing={pool_id: scaling.missing for pool_id, scaling in scalings.items()},
    )
    return Plan(
        start=tuple(start),
        undrain=tuple(undrain),
        drain=tuple(drain),
        stop=tuple(stop),
        remove=tuple(remove),
        wait=tuple(wait),
        refused=tuple(refused),
    )


def _scale(pool: PoolSeen, snapshot: Snapshot) -> _Scaling:
    workers = [worker for worker in snapshot.workers if worker.pool_id == pool.pool_id]
    wanted = 0 if snapshot.deleting else pool.replicas
    running = [worker for worker in workers if worker.desired == WorkerDesired.RUN]
    places = [worker for worker in running if not _silent(worker, snapshot)]
    draining = [worker for worker in workers if worker.desired == WorkerDesired.DRAIN]
    able = [worker for worker in draining if _can_come_back(worker, snapshot)]
    back = sorted(able, key=_usefulness, reverse=True)[: max(0, wanted - len(places))]
    surplus = sorted(places, key=_usefulness)[: max(0, len(places) - wanted)]
    if snapshot.deleting:
        surplus = running

    why = "the deployment is being deleted" if snapshot.deleting else f"{pool.role} shall have {_count(wanted)}"
    gone = [worker for worker in workers if worker.phase == WorkerPhase.STOPPED and worker.desired != WorkerDesired.RUN]
    return _Scaling(
        undrain=[Move(worker.worker_id, why) for worker in back],
        drain=[Move(worker.worker_id, why) for worker in surplus if worker.phase in _MAY_SERVE],
        stop=[Move(worker.worker_id, why) for worker in surplus if worker.phase not in _MAY_SERVE | _GONE]
        + [
            Move(worker.worker_id, "it has nothing to finish")
            for worker in draining
            if worker.phase not in _LEAVING | _GONE
        ],
        remove=[Move(worker.worker_id, why) for worker in surplus if worker.phase in _GONE]
        + [Move(worker.worker_id, f"it is gone from {worker.node}") for worker in gone],
        missing=max(0, wanted - len(places) - len(back)),
    )


def _silent(worker: WorkerSeen, snapshot: Snapshot) -> bool:
    return snapshot.nodes[worker.node].phase == NodePhase.LOST


def _can_come_back(worker: WorkerSeen, snapshot: Snapshot) -> bool:
    return worker.phase in (WorkerPhase.READY, WorkerPhase.DRAINING) and not _silent(worker, snapshot)


def _usefulness(worker: WorkerSeen) -> tuple[int, bool, int, float]:
    """Smallest leaves first: failed, failing, not up yet, then up with little to do (a load that is not known counts as
    much); among equals the newest."""
    ranks = {WorkerPhase.STOPPED: 0, WorkerPhase.FAILED: 0, WorkerPhase.BACKOFF: 1}
    rank = ranks.get(worker.phase, 3 if worker.phase in _MAY_SERVE else 2)
    return rank, worker.busy is None, worker.busy or 0, -worker.created_at.timestamp()


def _free(snapshot: Snapshot, gone: set[str]) -> list[Slot]:
    """Devices that a worker may start on now; one held by a worker that is gone is free."""
    return [
        Slot(device=device.device, node=device.node, kind=device.kind, index=device.index)
        for device in snapshot.devices
        if _usable(device, snapshot) and (device.held_by is None or device.held_by in gone)
    ]


def _usable(device: DeviceSeen, snapshot: Snapshot) -> bool:
    return not device.missing and snapshot.nodes[device.node].phase == NodePhase.READY


def _place(
    snapshot: Snapshot, *, gone: set[str], leaving: set[str], missing: dict[str, int]
) -> tuple[list[Start], list[Unmet], list[Unmet]]:
    """Devices for what is missing, and why some of it gets none.

    gone, leaving: workers whose devices are free now, and those whose devices will be. missing: workers by pool.
    """
    live = [worker for worker in snapshot.workers if worker.worker_id not in gone]
    ours = {worker.worker_id for worker in live}
    held = [device.kind for device in snapshot.devices if device.held_by in ours]
    free = _free(snapshot, gone)
    kind = choose_kind(held, free, sum(missing.values()))
    free = [slot for slot in free if slot.kind == kind]
    crowd = {pool.pool_id: Counter(w.node for w in live if w.pool_id == pool.pool_id) for pool in snapshot.pools}
    taken = Counter(device.node for device in snapshot.devices if device.held_by is not None)

    start: list[Start] = []
    while (pool := _neediest(snapshot.pools, missing)) and (slot := choose_slot(free, crowd[pool.pool_id], taken)):
        have = pool.replicas - missing[pool.pool_id]
        start.append(Start(pool.pool_id, (slot.device,), f"{pool.role} has {have} of {_count(pool.replicas)}"))
        free.remove(slot)
        missing[pool.pool_id] -= 1
        crowd[pool.pool_id][slot.node] += 1
        taken[slot.node] += 1
    return start, *_explain(snapshot, kind, leaving, missing)


def _neediest(pools: Sequence[PoolSeen], missing: Mapping[str, int]) -> PoolSeen | None:
    """The pool that has the smallest share of what it shall have: one pair serves sooner than two prefill workers."""
    needy = [pool for pool in pools if missing[pool.pool_id] > 0]
    return min(needy, key=lambda pool: 1 - missing[pool.pool_id] / pool.replicas, default=None)


def _explain(
    snapshot: Snapshot, kind: DeviceKind | None, leaving: set[str], missing: Mapping[str, int]
) -> tuple[list[Unmet], list[Unmet]]:
    """What is still missing when no device is free: first it waits for what is being freed, the rest is refused."""
    devices = [device for device in snapshot.devices if kind in (None, device.kind)]
    freeing = sum(device.held_by in leaving and _usable(device, snapshot) for device in devices)
    wait, refused = [], []
    for pool in snapshot.pools:
        waiting = min(freeing, missing[pool.pool_id])
        freeing -= waiting
        if waiting:
            thing = _count(waiting, _NOUN[kind])
            wait.append(Unmet(pool.pool_id, f"{pool.role} waits for {thing} being freed"))
        if lacking := missing[pool.pool_id] - waiting:
            needs = f"{pool.role} needs {_count(lacking, f'free {_NOUN[kind]}')}"
            refused.append(Unmet(pool.pool_id, f"{needs}: {_inventory(devices, kind, snapshot)}"))
    return wait, refused


def _inventory(devices: Sequence[DeviceSeen], kind: DeviceKind | None, snapshot: Snapshot) -> str:
    """What the fleet has, in a few words, when none of it is free."""
    if not devices:
        return "the fleet has none"
    away = sum(snapshot.nodes[device.node].phase != NodePhase.READY for device in devices)
    missing = sum(device.missing and snapshot.nodes[device.node].phase == NodePhase.READY for device in devices)
    taken = len(devices) - away - missing
    parts = [
        f"{taken} taken" if taken else "",
        f"{away} on nodes that do not report" if away else "",
        f"{missing} missing" if missing else "",
    ]
    state = "all taken" if taken == len(devices) else ", ".join(part for part in parts if part)
    return f"{_count(len(devices), _NOUN[kind])}, {state}"


def _count(number: int, noun: str = "worker") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
