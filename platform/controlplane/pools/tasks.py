"""Celery tasks: each reads its message and calls one service."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from celery import Task, shared_task
from django.conf import settings

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
def reconcile_pool(pool_id: str, news: bool = False) -> None:
    """Looks at the whole deployment of the pool: its pools share the fleet's devices. news: see `Rounds`."""
    pool = Pool.objects.filter(pk=UUID(pool_id)).first()
    if pool is not None:
        _rounds.ask(pool.deployment_id, news=news)


@shared_task(name=names.TASK_SWEEP, bind=True)
def sweep(self: Task) -> None:
    """The queue hands out in order. So what was reported before this sweep was asked for has been taken from it; and
    once the mailbox is empty, it has been written."""
    settled = _mailbox.settled(settings.SWEEP_INTERVAL_S)
    look_at_everything(now=clock.now(), read_to=_asked_at(self.request.expires) if settled else None)


def _asked_at(expires: str | None) -> datetime:
    """When beat asked for a sweep that is void from `expires` on (ISO 8601): the only time that a message carries."""
    now = clock.now()
    if expires is None:
        return now
    return min(now, datetime.fromisoformat(expires) - timedelta(seconds=settings.SWEEP_VALID_S))
