"""The network between nodes, measured by their agents with the real transfer code, one pair of a node at a time.

Level-triggered through the specs of both: the target listens and reports its address, then the source gets that address
and reports what it measured. A measurement that nobody ends is ended by its deadline.

    asked for ──(both nodes free)──> target listens ──(address known)──> source sends ──> Link
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, permutations
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from msgspec.structs import replace

from controlplane.core import clock
from controlplane.fleet.hooks import specs_renew
from controlplane.fleet.models import Link, LinkMeasurement, Node
from inference.contracts.reports import LinkReport
from inference.contracts.specs import LinkSpec
from inference.contracts.states import NodeDesired, NodePhase

log = structlog.get_logger()

#: How long a result counts as known for `links_needed`.
FRESH = timedelta(hours=24)

#: Directions that one request may ask for: those between 32 nodes.
PAIRS_MAX = 32 * 31

#: Beyond the nodes' own deadline: for specs and reports on their way.
_ON_THE_WAY = timedelta(seconds=15)


def links_wanted(node_ids: Collection[UUID]) -> dict[UUID, tuple[LinkSpec, ...]]:
    """What each node shall measure now, for its spec; nodes with nothing to measure are left out."""
    wanted: dict[UUID, list[LinkSpec]] = defaultdict(list)
    concerned = Q(source__in=node_ids) | Q(target__in=node_ids)
    for row in LinkMeasurement.objects.filter(concerned, started_at__isnull=False):
        receiver = LinkSpec(measurement_id=str(row.pk), listen=True, deadline_s=settings.LINK_DEADLINE_S)
        wanted[row.target_id].append(receiver)
        if row.peer_port is not None:
            sender = replace(receiver, listen=False, peer_host=row.peer_host, peer_port=row.peer_port)
            wanted[row.source_id].append(sender)
    return {node_id: tuple(wanted[node_id]) for node_id in node_ids if node_id in wanted}


@transaction.atomic
def links_measure(pairs: Iterable[tuple[UUID, UUID]], *, now: datetime) -> None:
    """Ask for these directions (source, target) to be measured; what is asked for already is not asked twice."""
    LinkMeasurement.objects.bulk_create(
        [LinkMeasurement(source_id=source, target_id=target, requested_at=now) for source, target in pairs],
        ignore_conflicts=True,
    )
    links_advance(now=now)


@transaction.atomic
def links_needed(node_ids: Collection[UUID]) -> None:
    """Ask for what is not known of the network between these nodes, since a pool is about to use them: PAIRS_MAX
    directions at most."""
    now = clock.now()
    between = Link.objects.filter(source__in=node_ids, target__in=node_ids, measured_at__gt=now - FRESH)
    known = set(between.values_list("source_id", "target_id"))
    unknown = (pair for pair in permutations(sorted(node_ids), 2) if pair not in known)
    links_measure(list(islice(unknown, PAIRS_MAX)), now=now)


@transaction.atomic
def links_record(node: Node, reports: Sequence[LinkReport], *, now: datetime) -> None:
    """Take what `node` says of its measurements; of those that it has no part in, nothing."""
    said = {report.measurement_id: report for report in reports}
    running = LinkMeasurement.objects.filter(Q(source=node) | Q(target=node), started_at__isnull=False)
    for row in running.select_related("source", "target") if said else ():
        report = said.get(str(row.pk))
        if report is None:
            continue
        if report.error:
            _end(row, now, error=f"{node.name}: {report.error}")
            _then(links_advance, now=now)
        elif row.target_id == node.pk and report.address is not None and row.peer_port is None:
            row.peer_host, row.peer_port = report.address.host[:255], report.address.port
            row.save(update_fields=["peer_host", "peer_port"])
            _then(specs_renew, [row.source_id])
        elif row.source_id == node.pk and report.bytes_per_s is not None:
            _end(row, now, report=report)
            _then(links_advance, now=now)


def _then(step: Callable[..., None], *args: object, **named: object) -> None:
    """In a transaction of its own: a report holds the row of its node, and must not reach for that of another."""
    transaction.on_commit(partial(step, *args, **named))


@transaction.atomic
def links_advance(*, now: datetime) -> None:
    """End what is overdue, then start what both ends are free for: LINKS_AT_ONCE measurements at most, and each node in
    one only, since two would measure each other. For the sweep, and whenever one ended."""
    rows = list(LinkMeasurement.objects.select_for_update(of=("self",)).select_related("source", "target"))
    running = []
    for row in rows:
        if hopeless := _hopeless(row, now):
            _end(row, now, error=hopeless)
        elif row.started_at is not None:
            running.append(row)
    busy = {node_id for row in running for node_id in (row.source_id, row.target_id)}
    room = settings.LINKS_AT_ONCE - len(running)
    started = []
    for row in rows:
        if row.pk is None or row.started_at is not None or busy & {row.source_id, row.target_id} or room <= 0:
            continue
        row.started_at = now
        row.save(update_fields=["started_at"])
        busy |= {row.source_id, row.target_id}
        room -= 1
        started.append(row.target_id)
    _then(specs_renew, started)


def _hopeless(row: LinkMeasurement, now: datetime) -> str:
    """Why it will not come to an end by itself; empty while it may."""
    for node in (row.source, row.target):
        if node.desired == NodeDesired.RETIRED or node.phase != NodePhase.READY:
            return f"{node.name} does not report."
    limit = timedelta(seconds=settings.LINK_DEADLINE_S) + _ON_THE_WAY
    if row.started_at is not None and not timedelta(0) <= now - row.started_at <= limit:
        waiting_for = row.target if row.peer_port is None else row.source
        return f"{waiting_for.name} said nothing within {limit.total_seconds():g} s."
    return ""


def _end(row: LinkMeasurement, now: datetime, *, report: LinkReport | None = None, error: str = "") -> None:
    """Keep the result, drop the measurement, and let both ends know that they are done with it."""
    link, _ = Link.objects.get_or_create(source_id=row.source_id, target_id=row.target_id)
    link.error = error
    if report is not None:
        link.bytes_per_s, link.latency_s, link.measured_at = report.bytes_per_s, report.latency_s, now
    link.save()
    level = log.warning if error else log.info
    level("link measured", source=row.source.name, target=row.target.name, bytes_per_s=link.bytes_per_s, error=error)
    row.delete()
    _then(specs_renew, [row.source_id, row.target_id])
