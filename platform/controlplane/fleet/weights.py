"""Weights on nodes: what is wanted there, for specs, and what nodes report of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models import F

from controlplane.core.locking import locked
from controlplane.fleet.hooks import specs_renew
from controlplane.fleet.models import Node, NodeWeights
from inference.contracts.reports import WeightsReport
from inference.contracts.specs import WeightsSpec
from inference.contracts.states import FetchState


def weights_wanted(node_ids: Collection[UUID]) -> dict[UUID, tuple[WeightsSpec, ...]]:
    """What each node shall fetch and keep, for its spec; nodes that want none are left out."""
    wanted: dict[UUID, list[WeightsSpec]] = defaultdict(list)
    for row in NodeWeights.objects.filter(node__in=node_ids, wanted=True):
        wanted[row.node_id].append(WeightsSpec(path=row.path, revision=row.revision, attempt=row.attempt))
    return {node_id: tuple(specs) for node_id, specs in wanted.items()}


@transaction.atomic
def weights_want(node_ids: Collection[UUID], path: str, revision: str) -> None:
    """Have these nodes fetch the weights and keep them. What failed there before is tried again."""
    list(locked(Node.objects).filter(pk__in=node_ids))  # as reports do, before the rows below
    rows = NodeWeights.objects.filter(node__in=node_ids, path=path, revision=revision)
    failed = rows.filter(state=FetchState.FAILED)
    failed.update(attempt=F("attempt") + 1, state=FetchState.WANTED, reason="", fetched_bytes=None)
    rows.update(wanted=True)
    there = set(rows.values_list("node_id", flat=True))
    NodeWeights.objects.bulk_create(
        NodeWeights(node_id=node_id, path=path, revision=revision, wanted=True, state=FetchState.WANTED)
        for node_id in node_ids
        if node_id not in there
    )
    specs_renew(node_ids)


@transaction.atomic
def weights_let_go(path: str, revision: str, *, node_ids: Collection[UUID] | None = None) -> None:
    """Nodes (None: all) need not have these weights any more. A fetch is broken off; what is on a disk stays there."""
    wanted = NodeWeights.objects.filter(path=path, revision=revision, wanted=True)
    if node_ids is not None:
        wanted = wanted.filter(node__in=node_ids)
    nodes = list(locked(Node.objects).filter(pk__in=wanted.values("node")))
    wanted.filter(node__in=nodes).update(wanted=False)
    specs_renew([node.pk for node in nodes])


def weights_record(reports: Mapping[Node, Sequence[WeightsReport]]) -> None:
    """Make the rows say what these nodes report. Weights that a node does not mention are not there; a row that nobody
    wants either goes."""
    known: dict[UUID, list[NodeWeights]] = defaultdict(list)
    for row in NodeWeights.objects.filter(node__in=reports) if reports else ():
        known[row.node_id].append(row)
    for node, said in reports.items():
        _record(node, {(row.path, row.revision): row for row in known[node.pk]}, said)


def _record(node: Node, rows: Mapping[tuple[str, str], NodeWeights], reports: Sequence[WeightsReport]) -> None:
    seen = {(report.path[:500], report.revision[:100]): report for report in reports}
    for key, report in seen.items():
        row = rows.get(key) or NodeWeights(node=node, path=key[0], revision=key[1])
        _write(row, report)
    for key, row in rows.items():
        if key in seen:
            continue
        if row.wanted:
            _write(row, WeightsReport(path=row.path, revision=row.revision, state=FetchState.WANTED))
        else:
            row.delete()


def _write(row: NodeWeights, report: WeightsReport) -> None:
    shape = None if report.shape is None else msgspec.to_builtins(report.shape)
    new = (report.state, report.size_bytes, report.fetched_bytes, report.reason, shape)
    if row.pk is None or (row.state, row.size_bytes, row.fetched_bytes, row.reason, row.shape) != new:
        row.state, row.size_bytes, row.fetched_bytes, row.reason, row.shape = new
        row.save()
