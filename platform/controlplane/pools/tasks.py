"""Celery tasks: each reads its message and calls one service."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from controlplane.core import clock
from controlplane.fleet.services import Mailbox, report_read
from controlplane.pools.models import Pool
from controlplane.pools.reconcile import deployment_reconcile
from controlplane.pools.reports import reports_record
from controlplane.pools.rounds import Rounds
from controlplane.pools.sweep import sweep as look_at_everything
from inference.contracts import names

_mailbox = Mailbox(reports_record)
_rounds = Rounds(deployment_reconcile)


@shared_task(name=names.TASK_RECORD_NODE_REPORT)
def record_node_report(encoded: str, code: str = "") -> None:
    """encoded: a `NodeReport`; code: its authentication code. One that can't be read, or that does not come from its
    node, is logged and dropped: the next is complete again."""
    received = report_read(encoded, code, at=clock.now())
    if received is not None:
        _mailbox.deliver(received)


@shared_task(name=names.TASK_RECONCILE_POOL)
def reconcile_pool(pool_id: str) -> None:
    """Looks at the whole deployment of the pool: its pools share the fleet's devices."""
    pool = Pool.objects.filter(pk=UUID(pool_id)).first()
    if pool is not None:
        _rounds.ask(pool.deployment_id)


@shared_task(name=names.TASK_SWEEP)
def sweep() -> None:
    look_at_everything(now=clock.now())
