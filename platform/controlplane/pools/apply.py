"""Writing a plan into rows. The only place where workers come to be, change what is wanted of them, and go.

The number of queries does not depend on how much the plan changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

import structlog
from django.db import transaction
from django.db.models import Q

from controlplane.core import clock
from controlplane.fleet.models import Device
from controlplane.pools.models import Allocation, Deployment, Pool, Worker
from controlplane.pools.naming import free_names
from controlplane.pools.node_spec import node_specs_renew, nodes_lock
from controlplane.pools.planning.changes import Flip, Move, Plan, Start
from controlplane.pools.routing import routing_table_publish
from inference.contracts.states import NodeDesired, WorkerDesired, WorkerPhase

log = structlog.get_logger()

#: Nothing of a worker runs any more: its node says so, or is no longer ours.
GONE = Q(phase=WorkerPhase.STOPPED) | Q(node__desired=NodeDesired.RETIRED)


class PlanOutdated(RuntimeError):
    """A row is no longer what the plan was made from. Nothing was written; a new plan will see what is there now."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the plan's ids stand for."""

    workers: dict[str, Worker]
    pools: dict[str, Pool]

    def of(self, moves: Iterable[Move | Flip]) -> list[Worker]:
        """
        Raises:
            PlanOutdated: one of them is gone.
        """
        try:
            return [self.workers[move.worker_id] for move in moves]
        except KeyError as error:
            raise PlanOutdated(f"worker {error} is gone") from error


@transaction.atomic
def apply(deployment: Deployment, plan: Plan) -> None:
    """Write all of `plan`, or nothing; once committed, tell routers, then every node concerned what it shall run now.

    Each change is a compare-and-set on the state that the plan saw, and a device has room for one owner only.

    Raises:
        PlanOutdated: a worker changed meanwhile.
        IntegrityError: a device was given away meanwhile.
    """
    if not plan.acts:
        return
    pools = Pool.objects.filter(deployment=deployment)
    workers = Worker.objects.filter(pool__deployment=deployment)
    rows = _Rows({str(each.pk): each for each in workers}, {str(each.pk): each for each in pools})
    devices = Device.objects.in_bulk([int(device) for start in plan.start for device in start.devices])
    touched = {worker.node_id for worker in rows.of((*plan.remove, *plan.undrain, *plan.drain, *plan.stop, *plan.flip))}
    touched |= {device.node_id for device in devices.values()}
    nodes_lock(touched)
    _remove(rows, plan.remove)
    _move(rows, plan.undrain, [WorkerDesired.DRAIN], WorkerDesired.RUN)
    _move(rows, plan.drain, [WorkerDesired.RUN], WorkerDesired.DRAIN)
    _move(rows, plan.stop, [WorkerDesired.RUN, WorkerDesired.DRAIN], WorkerDesired.STOP)
    _flip(rows, plan.flip)
    _start(deployment, rows, plan.start, devices)
    # Routers first: a worker is out of the table before its node is told to drain it.
    routing_table_publish()
    node_specs_renew(touched)


def _remove(rows: _Rows, moves: Sequence[Move]) -> None:
    leaving = rows.of(moves)
    if not leaving:
        return
    gone = Worker.objects.filter(GONE, pk__in=[worker.pk for worker in leaving])
    if gone.count() != len(leaving):
        raise PlanOutdated("a worker that was stopped runs again")
    gone.delete()
    for worker, move in zip(leaving, moves, strict=True):
        log.info("worker removed", worker=worker.name, worker_id=move.worker_id, reason=move.reason)
        del rows.workers[move.worker_id]


def _move(rows: _Rows, moves: Sequence[Move], old: Collection[WorkerDesired], new: WorkerDesired) -> None:
    """A worker that is being renewed is wanted, whatever it is told at the moment."""
    moving = rows.of(moves)
    if not moving:
        return
    held = Q(desired__in=old, renewing=False)
    if WorkerDesired.RUN in old:
        held |= Q(renewing=True)
    known = Worker.objects.filter(held, pk__in=[worker.pk for worker in moving])
    still = set(known.values_list("pk", flat=True))
    if others := [worker.name for worker in moving if worker.pk not in still]:
        raise PlanOutdated(f"{', '.join(others)} is not wanted to {' or '.join(old)} any more")
    known.update(desired=new, renewing=False)
    for worker, move in zip(moving, moves, strict=True):
        log.info("worker moved", worker=worker.name, worker_id=move.worker_id, desired=new, reason=move.reason)


def _flip(rows: _Rows, flips: Sequence[Flip]) -> None:
    moving = rows.of(flips)
    for worker, flip in zip(moving, flips, strict=True):
        if str(worker.pool_id) != flip.from_pool or worker.desired == WorkerDesired.STOP:
            raise PlanOutdated(f"{worker.name} is not what it was")
    for pool in rows.pools.values():
        names = free_names(pool, rows.workers.values())
        for worker, flip in zip(moving, flips, strict=True):
            if flip.to_pool == str(pool.pk):
                name = next(names)
                log.info("worker flips", worker=worker.name, name=name, worker_id=flip.worker_id, reason=flip.reason)
                worker.pool, worker.name, worker.refused_role = pool, name, ""
                if not worker.renewing:  # one that is starts anew in its new role
                    worker.desired = WorkerDesired.RUN
    Worker.objects.bulk_update(moving, ["pool", "name", "desired", "refused_role"])


def _start(deployment: Deployment, rows: _Rows, starts: Sequence[Start], devices: Mapping[int, Device]) -> None:
    revisions = {revision.number: revision for revision in deployment.revisions.all()}
    names = {pool_id: free_names(pool, rows.workers.values()) for pool_id, pool in rows.pools.items()}
    now = clock.now()
    born = [
        Worker(
            name=next(names[start.pool_id]),
            pool=rows.pools[start.pool_id],
            node_id=devices[int(start.devices[0])].node_id,
            revision=revisions[start.revision],
            incarnation=uuid4(),
            created_at=now,
            phase_since=now,
        )
        for start in starts
    ]
    Worker.objects.bulk_create(born)
    Allocation.objects.bulk_create(
        Allocation(device=devices[int(device)], worker=worker)
        for worker, start in zip(born, starts, strict=True)
        for device in start.devices
    )
    for worker, start in zip(born, starts, strict=True):
        given = [devices[int(device)].device_id for device in start.devices]
        log.info("worker assigned", worker=worker.name, worker_id=str(worker.pk), devices=given, reason=start.reason)
