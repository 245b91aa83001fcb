"""Workers that change from one pool to the other of their deployment, because one has too many and the other too few.

The devices stay with the worker and its weights stay loaded, so this is quicker than stop and start, and uses no device
more at any moment (F22).
"""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.pools.planning.changes import Flip
from controlplane.pools.planning.scaling import Standing
from controlplane.pools.planning.scene import Scene, fits, need_of
from controlplane.pools.planning.snapshot import WorkerSeen
from inference.contracts.states import Role, WorkerDesired, WorkerPhase

#: Phases in which a process can be told to switch (or to switch back).
_SWITCHABLE = frozenset({WorkerPhase.READY, WorkerPhase.DRAINING, WorkerPhase.SWITCHING})

_SPLIT_ROLES = frozenset({Role.PREFILL, Role.DECODE})


def flip(standings: Sequence[Standing], scene: Scene) -> list[Flip]:
    """Fill missing places of one pool from what another has too many of, as far as the workers can change over."""
    if scene.snapshot.deleting or not scene.snapshot.can_flip:
        return []
    split = [standing for standing in standings if standing.pool.role in _SPLIT_ROLES]
    return [made for to in split for source in split if source is not to for made in _flip_between(source, to, scene)]


def _flip_between(source: Standing, to: Standing, scene: Scene) -> list[Flip]:
    # What was drained to make room for others of its own pool is none too many.
    resting = [] if source.missing.total() else source.resting
    able = [worker for worker in (*source.surplus, *resting) if _can_flip(worker, to, scene)]
    able.sort(key=lambda worker: _order(worker, source, to, scene))
    made = []
    for worker in able:
        if not to.missing[worker.revision]:
            continue
        to.missing[worker.revision] -= 1
        to.kept.append(worker)
        (source.surplus if worker.desired == WorkerDesired.RUN else source.resting).remove(worker)
        reason = f"{to.shape}, {source.pool.role} {source.pool.replicas}"
        made.append(Flip(worker.worker_id, source.pool.pool_id, to.pool.pool_id, reason))
    return made


def _can_flip(worker: WorkerSeen, to: Standing, scene: Scene) -> bool:
    """A worker that refused the role is not asked again: it is stopped, and another is started in its place."""
    devices = scene.devices_of[worker.worker_id]
    need = need_of(to.pool)
    return (
        worker.phase in _SWITCHABLE
        and worker.refused_role != to.pool.role
        and len(devices) == need.devices
        and all(fits(device, need) and not device.blocked and not device.missing for device in devices)
    )


def _order(worker: WorkerSeen, source: Standing, to: Standing, scene: Scene) -> tuple[object, ...]:
    """First who is in that role already (its flip away had not begun), then who is leaving anyway, then the least
    useful."""
    draining = worker.desired != WorkerDesired.RUN
    return worker.role != to.pool.role, not draining, scene.usefulness(worker, source.pool.role)
