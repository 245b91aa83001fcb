"""Celery tasks: each reads its message and calls one service."""

from __future__ import annotations

from uuid import UUID

import structlog
from celery import shared_task

from controlplane.core import clock
from controlplane.pools.models import Pool
from controlplane.pools.reconcile import deployment_reconcile
from controlplane.pools.reports import report_record
from controlplane.pools.sweep import sweep as look_at_everything
from inference.contracts import codec, names
from inference.contracts.reports import NodeReport

log = structlog.get_logger()


@shared_task(name=names.TASK_RECORD_NODE_REPORT)
def record_node_report(encoded: str) -> None:
    """encoded: a `NodeReport`. One that can't be read is logged and dropped: the next is complete again."""
    try:
        report = codec.decode(encoded, NodeReport)
    except codec.CodecError as error:
        log.warning("node report not readable", error=str(error))
        return
    report_record(report, received_at=clock.now())


@shared_task(name=names.TASK_RECONCILE_POOL)
def reconcile_pool(pool_id: str) -> None:
    """Looks at the whole deployment of the pool: its pools share the fleet's devices."""
    pool = Pool.objects.filter(pk=UUID(pool_id)).first()
    if pool is not None:
        deployment_reconcile(pool.deployment_id)


@shared_task(name=names.TASK_SWEEP)
def sweep() -> None:
    look_at_everything(now=clock.now())
