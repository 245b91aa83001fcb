"""What nodes report of themselves, written into the observed columns: many reports at once, in few queries.

A report in which nothing changed but measurements costs its share of one statement. Measurements are written and shown
every few seconds at most, and in a large fleet less often still, so that the load they make has a limit. Desired state
is never written here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
import structlog
from django.conf import settings
from django.db import transaction

from controlplane.core.bulk import rows_write
from controlplane.core.locking import locked
from controlplane.fleet.announce import nodes_announce
from controlplane.fleet.credentials import Received
from controlplane.fleet.inventory import MEASURED, devices_record, measures_record
from controlplane.fleet.links import links_record
from controlplane.fleet.models import Node
from controlplane.fleet.weights import weights_record
from inference.contracts import codec
from inference.contracts.reports import NodeReport
from inference.contracts.states import NodeDesired, NodePhase

log = structlog.get_logger()

#: Nodes whose measurements are written and shown in one second, at most.
MEASURED_PER_S = 50

_UNMEASURED = dict.fromkeys(MEASURED)

_OBSERVED = (
    *("hostname", "address", "phase", "agent_version", "cpu_cores", "memory_total", "memory_used", "disk_total"),
    *("disk_free", "driver", "interfaces", "engines", "clock_offset_s", "observed_generation", "observed_digest"),
    *("boot_id", "retired_boot_id", "sequence", "last_report_at", "measured_at", "secured"),
    "refused_spec",
)


#: What is written when nothing changed but measurements.
_HEARD = ("sequence", "last_report_at", "memory_used", "disk_free", "clock_offset_s", "measured_at")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A report that was news. devices_changed: what a plan may give out is not what it was."""

    node: Node
    report: NodeReport
    at: datetime
    devices_changed: bool


@dataclass(slots=True)
class _News:
    """What one report changes. heard: nothing but measurements. measures: they are due."""

    recorded: Recorded
    heard: bool
    shown: bool
    rest_changed: bool
    measures: bool


@transaction.atomic
def nodes_record_reports(received: Sequence[Received]) -> list[Recorded]:
    """Write what nodes saw of themselves and their devices; their workers are for the caller to write.

    Of several reports of one node only the newest counts: each is complete. One that is older than what is known
    already, or that comes from no node of ours or from a retired one, changes nothing and is not returned.
    """
    newest = {each.report.node_id: each for each in _in_order(received)}
    # By name, as everywhere: two who lock several nodes never wait for each other.
    nodes = locked(Node.objects).filter(pk__in=_known_ids(newest))
    due = _measures_interval()
    news = [found for node in nodes if (found := _take(node, newest.pop(str(node.pk)), due))]
    for stranger in newest.values():
        log.warning("report of no node of ours ignored", node=stranger.report.node_id, host=stranger.report.hostname)
    for columns, heard in ((_HEARD, True), (_OBSERVED, False)):
        rows_write([each.recorded.node for each in news if each.heard == heard], columns)
    for record, changed in ((devices_record, True), (measures_record, False)):
        due_ones = [each.recorded for each in news if each.measures and each.recorded.devices_changed == changed]
        record({each.node: each.report.devices for each in due_ones})
    rest = [each.recorded for each in news if each.rest_changed]
    weights_record({each.node: each.report.weights for each in rest})
    if rest:
        links_record({each.node: each.report.links for each in rest}, now=max(each.at for each in rest))
    nodes_announce([each.recorded.node.pk for each in news if each.shown])
    return [each.recorded for each in news]


def node_record_report(report: NodeReport, *, received_at: datetime) -> Node | None:
    """The same for one report; None when it is no news."""
    recorded = nodes_record_reports([Received(report, received_at)])
    return recorded[0].node if recorded else None


def _in_order(received: Iterable[Received]) -> list[Received]:
    """As they arrived, but within one boot by sequence."""
    last: dict[tuple[str, str], Received] = {}
    for each in received:
        key = (each.report.node_id, each.report.boot_id)
        known = last.pop(key, None)
        last[key] = each if known is None or each.report.sequence > known.report.sequence else known
    return list(last.values())


def _known_ids(node_ids: Iterable[str]) -> list[UUID]:
    ids = []
    for node_id in node_ids:
        try:
            ids.append(UUID(node_id))
        except ValueError:
            continue
    return ids


def _measures_interval() -> timedelta:
    return timedelta(seconds=max(settings.MEASURES_INTERVAL_S, Node.objects.count() / MEASURED_PER_S))


def _take(node: Node, received: Received, due: timedelta) -> _News | None:
    """Put the report into the node's row (not saved yet), and say what is new in it."""
    report, at = received.report, received.at
    if node.desired == NodeDesired.RETIRED:
        log.warning("report of a retired node ignored", node=node.name)
        return None
    if _is_old(report, node):
        log.debug("late report ignored", node=node.name, boot=report.boot_id, sequence=report.sequence)
        return None
    if node.phase == NodePhase.LOST:
        log.info("lost node is back", node=node.name)
    was, digest = _known(node), _digest(report)
    devices_changed = node.phase != NodePhase.READY or node.observed_digest[:32] != digest[:32]
    rest_changed = node.observed_digest[32:] != digest[32:]
    measures = devices_changed or _is_due(node.measured_at, at, due)
    if report.boot_id != node.boot_id:
        node.retired_boot_id, node.boot_id = node.boot_id, report.boot_id
    node.secured = node.secured or received.signed
    _observe(node, report, at)
    node.observed_digest = digest
    if measures:
        node.measured_at = at
    heard = was == _known(node)
    return _News(Recorded(node, report, at, devices_changed), heard, measures or not heard, rest_changed, measures)


def _known(node: Node) -> tuple[object, ...]:
    """What is known of a node apart from measurements."""
    return node.phase, node.observed_generation, node.boot_id, node.secured, node.observed_digest


def _is_old(report: NodeReport, node: Node) -> bool:
    """Order without clocks: within one boot by sequence; between two boots, the one that was replaced is over."""
    if report.boot_id == node.boot_id:
        return report.sequence <= node.sequence
    return report.boot_id == node.retired_boot_id


def _is_due(last: datetime | None, now: datetime, interval: timedelta) -> bool:
    """A time that lies ahead was read before our clock went back."""
    return last is None or not timedelta(0) <= now - last < interval


def _observe(node: Node, report: NodeReport, at: datetime) -> None:
    node.phase = NodePhase.READY
    node.sequence = report.sequence
    node.last_report_at = at
    node.observed_generation = report.observed_generation
    node.clock_offset_s = None if report.clock is None else round(report.clock - at.timestamp(), 3)
    node.hostname = report.hostname[:255]
    node.address = report.address[:255]
    node.agent_version = report.agent_version[:50]
    node.cpu_cores = report.cpu_cores
    node.memory_total, node.memory_used = report.memory_total, report.memory_used
    node.disk_total, node.disk_free = report.disk_total, report.disk_free
    node.driver = report.driver[:100]
    node.interfaces = list(report.interfaces)
    node.engines = dict(report.engines)
    node.refused_spec = report.refused_spec


def _digest(report: NodeReport) -> str:
    """Two digests in one text: of the devices, and of everything else that is not measured all the time."""
    devices = [msgspec.structs.replace(device, **_UNMEASURED) for device in report.devices]
    rest = (
        *(report.hostname, report.address, report.agent_version, report.cpu_cores, report.memory_total),
        *(report.disk_total, report.driver, report.interfaces, report.engines, report.weights, report.links),
        report.refused_spec,
    )
    return "".join(hashlib.sha256(codec.encode(part)).hexdigest()[:32] for part in (devices, rest))
