"""What a plan does to a snapshot, and what becomes of that if all goes well. Used to look ahead, never to act."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.snapshot import Snapshot, WorkerSeen
from inference.contracts.states import STARTING_UP, NodePhase, WorkerDesired, WorkerPhase

#: When the first worker of a deployment was made, as far as looking ahead goes: only the order counts.
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

#: Phases from which a wanted worker gets to READY by itself. One that failed does not.
_COMING = STARTING_UP | {WorkerPhase.READY, WorkerPhase.DRAINING, WorkerPhase.SWITCHING, WorkerPhase.UNKNOWN}


def written(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot once `plan` is in the rows, and before any node has heard of it."""
    desired = dict.fromkeys((move.worker_id for move in plan.undrain), WorkerDesired.RUN)
    desired |= dict.fromkeys((flip.worker_id for flip in plan.flip), WorkerDesired.RUN)
    desired |= dict.fromkeys((move.worker_id for move in plan.drain), WorkerDesired.DRAIN)
    desired |= dict.fromkeys((move.worker_id for move in plan.stop), WorkerDesired.STOP)
    pools = {flip.worker_id: flip.to_pool for flip in plan.flip}
    removed = {move.worker_id for move in plan.remove}
    workers = [
        replace(
            worker,
            desired=desired.get(worker.worker_id, worker.desired),
            pool_id=pools.get(worker.worker_id, worker.pool_id),
        )
        for worker in snapshot.workers
        if worker.worker_id not in removed
    ]
    holders: dict[str, str | None] = {
        device.device: None for device in snapshot.devices if device.held_by is not None and device.held_by in removed
    }
    for worker, devices in _born(snapshot, workers, plan):
        workers.append(worker)
        holders |= dict.fromkeys(devices, worker.worker_id)
    return replace(
        snapshot,
        workers=tuple(workers),
        devices=tuple(
            replace(device, held_by=holders[device.device], leaving=False) if device.device in holders else device
            for device in snapshot.devices
        ),
    )


def _born(snapshot: Snapshot, workers: list[WorkerSeen], plan: Plan) -> Iterator[tuple[WorkerSeen, tuple[str, ...]]]:
    """The workers that a plan starts, named as they will be: the role and the lowest number that is free."""
    taken: dict[str, set[str]] = defaultdict(set)
    for worker in workers:
        taken[worker.pool_id].add(worker.name)
    nodes = {device.device: device.node for device in snapshot.devices} if plan.start else {}
    roles = {pool.pool_id: pool.role for pool in snapshot.pools}
    newest = max((worker.created_at for worker in snapshot.workers), default=None)
    for start in plan.start:
        role = roles[start.pool_id]
        name = next(name for number in count(1) if (name := f"{role}-{number}") not in taken[start.pool_id])
        taken[start.pool_id].add(name)
        yield (
            WorkerSeen(
                worker_id=f"new {name} on {start.devices[0]}",
                name=name,
                pool_id=start.pool_id,
                node=nodes[start.devices[0]],
                desired=WorkerDesired.RUN,
                phase=WorkerPhase.ASSIGNED,
                phase_since=newest or _LONG_AGO,
                created_at=newest or _LONG_AGO,
                busy=None,
                revision=start.revision,
            ),
            start.devices,
        )


def come_true(snapshot: Snapshot) -> Snapshot:
    """What is wanted has happened on every node that reports: who shall run is ready in the role of its pool, who shall
    leave is gone."""
    roles = {pool.pool_id: pool.role for pool in snapshot.pools}

    def becomes(worker: WorkerSeen) -> WorkerSeen:
        if snapshot.nodes[worker.node].phase != NodePhase.READY:
            return worker
        if worker.desired != WorkerDesired.RUN:
            return replace(worker, phase=WorkerPhase.STOPPED)
        if worker.phase in _COMING:
            return replace(worker, phase=WorkerPhase.READY, role=roles[worker.pool_id])
        return worker

    return replace(snapshot, workers=tuple(becomes(worker) for worker in snapshot.workers))
