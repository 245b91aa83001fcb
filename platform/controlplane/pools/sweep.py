"""The periodic look at everything: it does again what a lost message, a lost Redis or a lost process left undone."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from controlplane.access.sweep import access_sweep
from controlplane.catalog.learning import models_learn
from controlplane.core.locking import locked
from controlplane.core.rest import idempotency
from controlplane.fleet.models import Node
from controlplane.fleet.services import (
    cadence_adjust,
    credentials_ensure,
    links_advance,
    nodes_mark_lost,
    sweep_take_turn,
)
from controlplane.operations.services import operations_sweep
from controlplane.pools.announce import deployments_announce
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.node_spec import node_specs_resend
from controlplane.pools.reconcile import deployment_look
from controlplane.pools.reports import NOT_SEEN, OUT_OF_SIGHT
from controlplane.pools.routing import routing_table_refresh
from inference.contracts.states import NodePhase, WorkerDesired, WorkerPhase

log = structlog.get_logger()


def sweep(*, now: datetime, read_to: datetime | None) -> None:
    """read_to: everything that nodes had sent by then is written; None is not known, and then no node is lost."""
    if not sweep_take_turn(now=now):
        return
    if read_to is None:
        log.warning("reports wait to be written, so silence says nothing of any node")
    else:
        nodes_mark_lost(read_to=read_to)
    workers_lose_sight(now=now)
    for deployment_id in Deployment.objects.values_list("pk", flat=True):
        try:
            deployment_look(deployment_id)
        except Exception:
            # One deployment's trouble must not keep the others from being looked after; the next sweep tries again.
            log.exception("deployment not reconciled", deployment=deployment_id)
    links_advance(now=now)
    models_learn()
    operations_sweep(now=now)
    credentials_ensure()
    cadence_adjust()
    node_specs_resend()
    routing_table_refresh()
    access_sweep(now=now)
    idempotency.forget_old(now=now)


@transaction.atomic
def workers_lose_sight(*, now: datetime) -> None:
    """Nothing is known any more of workers on silent nodes, except of those that were seen to be gone. Where those were
    that took requests stays known, for routers that have nobody else."""
    # The nodes are locked first: one that is heard at this very moment keeps what it reports.
    silent = [node.pk for node in locked(Node.objects).filter(phase=NodePhase.LOST)]
    unseen = (
        Worker.objects.filter(node__in=silent)
        .exclude(phase=WorkerPhase.UNKNOWN)
        .exclude(phase=WorkerPhase.STOPPED, desired__in=[WorkerDesired.DRAIN, WorkerDesired.STOP])
        .select_related("node", "pool")
    )
    concerned = set()
    for worker in unseen:
        log.warning("worker out of sight", worker=worker.name, worker_id=str(worker.pk), node=worker.node.name)
        left = OUT_OF_SIGHT if worker.phase == WorkerPhase.READY else NOT_SEEN
        columns = {**left, "phase": WorkerPhase.UNKNOWN, "reason": f"{worker.node.name} is silent"}
        Worker.objects.filter(pk=worker.pk).update(**columns, phase_since=now)
        concerned.add(worker.pool.deployment_id)
    deployments_announce(concerned)
