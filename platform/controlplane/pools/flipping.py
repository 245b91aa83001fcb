"""One worker changes over to the other pool of its deployment, and with it both pools' sizes."""

from __future__ import annotations

from uuid import uuid4

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet

from controlplane.core.locking import locked
from controlplane.operations.models import Operation
from controlplane.operations.selectors import operations_holding
from controlplane.operations.services import operation_finish
from controlplane.pools.counts import counts_write
from controlplane.pools.models import Deployment, Pool, Worker
from controlplane.pools.naming import free_names
from controlplane.pools.node_spec import node_specs_renew, nodes_lock
from controlplane.pools.routing import routing_table_publish
from inference.contracts.states import OperationKind, OperationState, WorkerDesired, WorkerPhase

log = structlog.get_logger()

_REFUSED = Q(refused_role=F("pool__role"))
_DRAINED = Q(renewing=True, phase=WorkerPhase.STOPPED)


def worker_change_over(deployment: Deployment, worker: Worker, to: Pool) -> None:
    """Move `worker` to the pool `to`. Its agent drains it first; then the process switches with its weights loaded, or,
    where its engine can't, is started anew on the same devices. The caller has locked the deployment."""
    nodes_lock([worker.node_id])
    out_of = Pool.objects.select_related("deployment").get(pk=worker.pool_id)
    name = next(free_names(to, Worker.objects.filter(pool=to)))
    log.info("worker changes over", worker=worker.name, name=name, worker_id=str(worker.pk))
    worker.pool, worker.name, worker.refused_role = to, name, ""
    worker.save(update_fields=["pool", "name", "refused_role"])
    fewer, more = max(out_of.min_replicas, out_of.replicas - 1), min(to.max_replicas, to.replicas + 1)
    counts_write(deployment, {out_of: fewer, to: more})
    # Routers first: it is out of the table before its node is told to drain it.
    routing_table_publish()
    node_specs_renew([worker.node_id])


@transaction.atomic
def workers_put_right(deployment_id: int) -> None:
    """What nodes have answered: a role that a worker refused, the end of one that is to start anew. In a transaction of
    its own, since its nodes are locked before the plan knows those that it concerns (`core.locking`)."""
    deployment = locked(Deployment.objects).filter(pk=deployment_id).first()
    workers = Worker.objects.filter(pool__deployment=deployment)
    answered = dict(workers.filter(_REFUSED | _DRAINED).values_list("pk", "node_id"))
    if deployment is not None and answered:
        nodes_lock(set(answered.values()))
        _flips_take_back(deployment, workers.filter(_REFUSED, pk__in=answered))
        _workers_renew(workers.filter(_DRAINED, pk__in=answered))


def _flips_take_back(deployment: Deployment, refused: QuerySet[Worker]) -> None:
    """Workers whose process could not be switched go back to the pool whose role they have. What wanted the change has
    failed, with what their nodes say."""
    for worker in refused.select_related("pool"):
        to = Pool.objects.filter(deployment=deployment, role=worker.observed_role).exclude(pk=worker.pool_id).first()
        if to is None or worker.desired != WorkerDesired.RUN:
            continue
        why = worker.reason or f"could not become {worker.pool.role}"
        targets = {"worker": [str(worker.pk)], "pool": [str(worker.pool_id), str(to.pk)]}
        wanted_by = list(operations_holding(targets))
        log.warning("flip refused", worker=worker.name, worker_id=str(worker.pk), reason=why)
        worker_change_over(deployment, worker, to)
        for operation in wanted_by:
            _fail(operation, f"{worker.name} goes on as {to.role} worker: {why}")


def _fail(operation: Operation, outcome: str) -> None:
    if operation.kind in (OperationKind.FLIP, OperationKind.REBALANCE):
        operation_finish(operation, OperationState.FAILED, outcome)


def _workers_renew(drained: QuerySet[Worker]) -> None:
    """Start again those that were drained for it and have ended: as new incarnations, on their devices."""
    workers = list(drained)
    for worker in workers:
        log.info("worker starts anew", worker=worker.name, worker_id=str(worker.pk))
        worker.incarnation, worker.desired, worker.renewing = uuid4(), WorkerDesired.RUN, False
        worker.phase = WorkerPhase.ASSIGNED
    if workers:
        Worker.objects.bulk_update(workers, ["incarnation", "desired", "renewing", "phase"])
        node_specs_renew([worker.node_id for worker in workers])
