"""The network between nodes, measured by their agents with the real transfer code, one pair of a node at a time.

Level-triggered through the specs of both: the target listens and reports its address, then the source gets that address
and reports what it measured. A measurement that nobody ends is ended by its deadline.

    asked for ──(both nodes free)──> target listens ──(address known)──> source sends ──> Link
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial, reduce
from itertools import islice
from operator import or_
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from msgspec.structs import replace

from controlplane.core import clock
from controlplane.core.locking import locked
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

#: Directions that a pool about to be saved asks for: those between 8 nodes. More are measured on request.
NEEDED_MAX = 8 * 7

#: Beyond the nodes' own deadline: for specs and reports on their way.
_ON_THE_WAY = timedelta(seconds=15)

_STARTED = Q(started_at__isnull=False)

#: Of measurements with an end that can't take part; see `_hopeless`.
_NO_HOPE = reduce(
    or_,
    (
        ~Q(**{f"{end}__phase": NodePhase.READY}) | Q(**{f"{end}__desired": NodeDesired.RETIRED})
        for end in ("source", "target")
    ),
)


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
        [LinkMeasurement(source_id=source, target_id=target, requested_at=now) for source, target in sorted(pairs)],
        ignore_conflicts=True,
    )
    links_advance(now=now)


@transaction.atomic
def links_needed(node_ids: Collection[UUID]) -> None:
    """Ask for what is not known of the network between these nodes, since a pool is about to use them: NEEDED_MAX
    directions at most, each node with the next ones first, so that of a large pool no node is left out for another's
    whole row."""
    now = clock.now()
    between = Link.objects.filter(source__in=node_ids, target__in=node_ids, measured_at__gt=now - FRESH)
    known = set(between.values_list("source_id", "target_id"))
    unknown = (pair for pair in _round_table(sorted(node_ids)) if pair not in known)
    links_measure(list(islice(unknown, NEEDED_MAX)), now=now)


def _round_table(node_ids: Sequence[UUID]) -> Iterator[tuple[UUID, UUID]]:
    """All directions between them: first from each to the next one, then from each to the next but one, and so on."""
    for distance in range(1, len(node_ids)):
        for at, source in enumerate(node_ids):
            yield source, node_ids[(at + distance) % len(node_ids)]


@transaction.atomic
def links_record(said: Mapping[Node, Sequence[LinkReport]], *, now: datetime) -> None:
    """Take what nodes say of their measurements; of those that they have no part in, nothing."""
    reports = {(report.measurement_id, node.pk): report for node, some in said.items() for report in some}
    if not reports:
        return
    concerned = Q(source__in=said) | Q(target__in=said)
    rows = LinkMeasurement.objects.filter(concerned, started_at__isnull=False).select_related("source", "target")
    to_tell: set[UUID] = set()
    ended = False
    for row in locked(rows, of=["self"]):
        for node in (row.target, row.source):
            report = reports.get((str(row.pk), node.pk))  # the row has no key any more once it has ended
            if report is not None:
                to_tell |= _take(row, node, report, now)
        ended |= row.pk is None
    _then(specs_renew, to_tell)
    if ended:
        _then(links_advance, now=now)


def _take(row: LinkMeasurement, node: Node, report: LinkReport, now: datetime) -> set[UUID]:
    """Write what the node says; which nodes have to be told of it."""
    if report.error:
        return _end(row, now, error=f"{node.name}: {report.error}")
    if row.target_id == node.pk and report.address is not None and row.peer_port is None:
        row.peer_host, row.peer_port = report.address.host[:255], report.address.port
        row.save(update_fields=["peer_host", "peer_port"])
        return {row.source_id}
    if row.source_id == node.pk and report.bytes_per_s is not None:
        return _end(row, now, report=report)
    return set()


def _then(step: Callable[..., None], *args: object, **named: object) -> None:
    """In a transaction of its own: a report holds the row of its node, and must not reach for that of another."""
    transaction.on_commit(partial(step, *args, **named))


@transaction.atomic
def links_advance(*, now: datetime) -> None:
    """End what is overdue, then start what both ends are free for: LINKS_AT_ONCE measurements at most, and each node in
    one only, since two would measure each other. For the sweep, and whenever one ended.

    A large fleet has thousands that wait: they are not looked at one by one.
    """
    # Whoever holds the first row advances; others find afterwards what is left to do.
    locked(LinkMeasurement.objects).first()
    running, to_tell = [], set()
    to_look_at = LinkMeasurement.objects.filter(_STARTED | _NO_HOPE).select_related("source", "target")
    for row in locked(to_look_at, of=["self"]):
        if hopeless := _hopeless(row, now):
            to_tell |= _end(row, now, error=hopeless)
        else:
            running.append(row)
    busy = {node_id for row in running for node_id in (row.source_id, row.target_id)}
    for _ in range(settings.LINKS_AT_ONCE - len(running)):
        waiting = LinkMeasurement.objects.exclude(_STARTED).exclude(source__in=busy).exclude(target__in=busy)
        following = locked(waiting).first()
        if following is None:
            break
        following.started_at = now
        following.save(update_fields=["started_at"])
        busy |= {following.source_id, following.target_id}
        to_tell.add(following.target_id)
    _then(specs_renew, to_tell)


def _hopeless(row: LinkMeasurement, now: datetime) -> str:
    """Why it will not come to an end by itself; empty while it may."""
    for node in (row.source, row.target):
        if node.desired == NodeDesired.RETIRED:
            return f"{node.name} was retired."
        if node.phase != NodePhase.READY:
            return f"{node.name} does not report."
    limit = timedelta(seconds=settings.LINK_DEADLINE_S) + _ON_THE_WAY
    if row.started_at is not None and not timedelta(0) <= now - row.started_at <= limit:
        waiting_for = row.target if row.peer_port is None else row.source
        return f"{waiting_for.name} said nothing within {limit.total_seconds():g} s."
    return ""


def _end(row: LinkMeasurement, now: datetime, *, report: LinkReport | None = None, error: str = "") -> set[UUID]:
    """Keep the result and drop the measurement; which nodes have to be told that they are done with it."""
    link, _ = Link.objects.get_or_create(source_id=row.source_id, target_id=row.target_id)
    link.error = error
    if report is not None:
        link.bytes_per_s, link.latency_s, link.measured_at = report.bytes_per_s, report.latency_s, now
    link.save()
    level = log.warning if error else log.info
    level("link measured", source=row.source.name, target=row.target.name, bytes_per_s=link.bytes_per_s, error=error)
    row.delete()
    return {row.source_id, row.target_id} if row.started_at is not None else set()
