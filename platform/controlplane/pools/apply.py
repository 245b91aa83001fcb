"""Writing a plan into rows. The only place where workers come to be, change what is wanted of them, and go."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID, uuid4

import structlog
from django.db import transaction

from controlplane.core import clock
from controlplane.fleet.models import Device
from controlplane.pools.models import Allocation, Deployment, Pool, Worker
from controlplane.pools.node_spec import node_specs_renew
from controlplane.pools.plan import Move, Plan, Start
from controlplane.pools.routing import routing_table_publish
from inference.contracts.states import WorkerDesired, WorkerPhase

log = structlog.get_logger()


class PlanOutdated(RuntimeError):
    """A row is no longer what the plan was made from. Nothing was written; a new plan will see what is there now."""


@transaction.atomic
def apply(deployment: Deployment, plan: Plan) -> None:
    """Write all of `plan`, or nothing; once committed, tell routers, then every node concerned what it shall run now.

    Each change is a compare-and-set on the state that the plan saw, and a device has room for one owner only.

    Raises:
        PlanOutdated: a worker changed meanwhile.
        IntegrityError: a device was given away meanwhile.
    """
    workers = {str(each.pk): each for each in Worker.objects.filter(pool__deployment=deployment)}
    touched: set[UUID] = set()
    for move in plan.remove:
        touched.add(_remove(workers, move))
    for moves, old, new in (
        (plan.undrain, [WorkerDesired.DRAIN], WorkerDesired.RUN),
        (plan.drain, [WorkerDesired.RUN], WorkerDesired.DRAIN),
        (plan.stop, [WorkerDesired.RUN, WorkerDesired.DRAIN], WorkerDesired.STOP),
    ):
        touched |= {_move(workers, move, old, new) for move in moves}
    touched |= {_start(deployment, start) for start in plan.start}
    # Routers first: a worker is out of the table before its node is told to drain it.
    routing_table_publish()
    node_specs_renew(touched)


def _remove(workers: dict[str, Worker], move: Move) -> UUID:
    worker = _known(workers, move)
    _, rows = Worker.objects.filter(pk=worker.pk, phase=WorkerPhase.STOPPED).delete()
    if not rows.get(Worker._meta.label):
        raise PlanOutdated(f"{worker.name} is not stopped any more")
    log.info("worker removed", worker=worker.name, worker_id=move.worker_id, reason=move.reason)
    return worker.node_id


def _move(workers: dict[str, Worker], move: Move, old: Iterable[WorkerDesired], new: WorkerDesired) -> UUID:
    worker = _known(workers, move)
    if not Worker.objects.filter(pk=worker.pk, desired__in=old).update(desired=new):
        raise PlanOutdated(f"{worker.name} is not wanted to {' or '.join(old)} any more")
    log.info("worker moved", worker=worker.name, worker_id=move.worker_id, desired=new, reason=move.reason)
    return worker.node_id


def _known(workers: dict[str, Worker], move: Move) -> Worker:
    worker = workers.get(move.worker_id)
    if worker is None:
        raise PlanOutdated(f"worker {move.worker_id} is gone")
    return worker


def _start(deployment: Deployment, start: Start) -> UUID:
    pool = Pool.objects.get(pk=start.pool_id, deployment=deployment)
    devices = [Device.objects.get(pk=device) for device in start.devices]
    now = clock.now()
    worker = Worker.objects.create(
        name=_free_name(pool),
        pool=pool,
        node_id=devices[0].node_id,
        revision=deployment.stable_revision,
        incarnation=uuid4(),
        created_at=now,
        phase_since=now,
    )
    Allocation.objects.bulk_create(Allocation(device=device, worker=worker) for device in devices)
    log.info(
        "worker assigned",
        worker=worker.name,
        worker_id=str(worker.pk),
        devices=[device.device_id for device in devices],
        reason=start.reason,
    )
    return worker.node_id


def _free_name(pool: Pool) -> str:
    """The role and the lowest number that no worker of the pool has."""
    taken = set(Worker.objects.filter(pool=pool).values_list("name", flat=True))
    return next(name for number in range(1, len(taken) + 2) if (name := f"{pool.role}-{number}") not in taken)
