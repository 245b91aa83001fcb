"""Which nodes are lost: READY ones that were silent for too long, by arrival times alone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models.functions import Coalesce

from controlplane.core import clock
from controlplane.core.locking import locked
from controlplane.fleet import silence
from controlplane.fleet.announce import nodes_announce
from controlplane.fleet.cadence import lost_after_s
from controlplane.fleet.models import Node, Watch
from inference.contracts.states import NodeDesired, NodePhase

log = structlog.get_logger()


@transaction.atomic
def nodes_mark_lost(*, read_to: datetime | None = None) -> list[Node]:
    """The sweep's look at silence: READY nodes that were silent for too long (`cadence`) become LOST; which ones.

    Nobody is marked before this has been watching for that long without a pause (`silence.watching_since`).

    read_to: all that nodes had sent by then has been written, and what they sent later may still wait in the queue: it
    is the present that silence is measured to. So a control plane that has more to read than it can takes no node for
    lost whose reports it has not read. None: now.
    """
    limit = timedelta(seconds=lost_after_s())
    since, now = _keep_watch(limit)
    now = now if read_to is None else min(now, read_to)
    # Only those that seem to be silent are locked, and then looked at again: reports go on meanwhile.
    seem = [pk for pk, heard in _heard() if silence.is_silent(last_heard=heard, since=since, now=now, limit=limit)]
    lost = []
    for node in locked(Node.objects).filter(pk__in=seem, phase=NodePhase.READY):
        last_heard = node.last_report_at or node.joined_at
        if silence.is_silent(last_heard=last_heard, since=since, now=now, limit=limit):
            node.phase = NodePhase.LOST
            log.warning("node lost", node=node.name, silent_s=(now - last_heard).total_seconds())
            lost.append(node)
    Node.objects.filter(pk__in=[node.pk for node in lost]).update(phase=NodePhase.LOST)
    nodes_announce([node.pk for node in lost])
    return lost


def _heard() -> Iterable[tuple[UUID, datetime]]:
    """READY nodes that are ours, and when each was last heard."""
    ready = Node.objects.filter(phase=NodePhase.READY).exclude(desired=NodeDesired.RETIRED)
    return ready.values_list("pk", Coalesce("last_report_at", "joined_at"))


def _keep_watch(limit: timedelta) -> tuple[datetime, datetime]:
    """Note that a sweep ran; since when the nodes have been watched, and what time it is now.

    That is read behind the lock: waiting for it must not make reports that came meanwhile look like those of a clock
    that went back.
    """
    Watch.objects.get_or_create(pk=1, defaults={"since": clock.now(), "swept_at": clock.now()})
    watch = locked(Watch.objects).get(pk=1)
    now = clock.now()
    watch.since = silence.watching_since(since=watch.since, swept_at=watch.swept_at, now=now, limit=limit)
    watch.swept_at = now
    watch.save()
    return watch.since, now
