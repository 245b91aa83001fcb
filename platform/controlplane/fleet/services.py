"""What is seen of nodes: their reports, and their silence. Desired state is never written here.

Joining is in `joining`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from controlplane.core.broadcast import broadcast
from controlplane.fleet import silence
from controlplane.fleet.inventory import devices_record
from controlplane.fleet.models import Node, Watch
from controlplane.fleet.presenters import node_view
from controlplane.fleet.selectors import device_holders, node_get
from inference.contracts.console import NodeChanged
from inference.contracts.reports import NodeReport
from inference.contracts.states import NodePhase

log = structlog.get_logger()


def node_announce(node_id: UUID) -> None:
    """Tell consoles how the node is now. Also for other apps, after they gave a device to a worker or took it back."""
    node = node_get(node_id)
    broadcast(NodeChanged(node=node_view(node, device_holders([node]))))


@transaction.atomic
def node_record_report(report: NodeReport, *, received_at: datetime) -> Node | None:
    """Write what the node saw of itself and its devices; its workers are for the caller to write.

    received_at: when the report arrived, by our clock. Returns None, with nothing written, for a report that is older
    than what is known already or that comes from no node of ours.
    """
    node = _lock_node(report.node_id)
    if node is None:
        log.warning("report from an unknown node ignored", node=report.node_id, hostname=report.hostname)
        return None
    if _is_old(report, node):
        log.debug("late report ignored", node=node.name, boot=report.boot_id, sequence=report.sequence)
        return None
    if node.phase == NodePhase.LOST:
        log.info("lost node is back", node=node.name)
    if report.boot_id != node.boot_id:
        node.retired_boot_id, node.boot_id = node.boot_id, report.boot_id
    node.sequence = report.sequence
    node.phase = NodePhase.READY
    node.last_report_at = received_at
    node.observed_generation = report.observed_generation
    node.hostname = report.hostname[:255]
    node.address = report.address[:255]
    node.agent_version = report.agent_version[:50]
    node.cpu_cores = report.cpu_cores
    node.memory_total = report.memory_total
    node.memory_used = report.memory_used
    node.save()
    devices_record(node, report.devices)
    node_announce(node.pk)
    return node


def _lock_node(node_id: str) -> Node | None:
    try:
        return Node.objects.select_for_update().filter(pk=UUID(node_id)).first()
    except ValueError:
        return None


def _is_old(report: NodeReport, node: Node) -> bool:
    """Order without clocks: within one boot by sequence; between two boots, the one that was replaced is over."""
    if report.boot_id == node.boot_id:
        return report.sequence <= node.sequence
    return report.boot_id == node.retired_boot_id


@transaction.atomic
def nodes_mark_lost(*, now: datetime) -> list[Node]:
    """The sweep's look at silence: READY nodes that were not heard for NODE_LOST_AFTER_S become LOST; which ones.

    Nobody is marked before this has been watching for that long without a pause (`silence.watching_since`).
    """
    limit = timedelta(seconds=settings.NODE_LOST_AFTER_S)
    since = _keep_watch(now, limit)
    lost = []
    for node in Node.objects.select_for_update().filter(phase=NodePhase.READY):
        last_heard = node.last_report_at or node.joined_at
        if silence.is_silent(last_heard=last_heard, since=since, now=now, limit=limit):
            node.phase = NodePhase.LOST
            node.save(update_fields=["phase"])
            log.warning("node lost", node=node.name, silent_s=(now - last_heard).total_seconds())
            node_announce(node.pk)
            lost.append(node)
    return lost


def _keep_watch(now: datetime, limit: timedelta) -> datetime:
    """Note that a sweep ran; since when the nodes have been watched."""
    Watch.objects.get_or_create(pk=1, defaults={"since": now, "swept_at": now})
    watch = Watch.objects.select_for_update().get(pk=1)
    watch.since = silence.watching_since(since=watch.since, swept_at=watch.swept_at, now=now, limit=limit)
    watch.swept_at = now
    watch.save()
    return watch.since
