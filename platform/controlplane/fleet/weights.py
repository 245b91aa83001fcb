"""Weights on nodes: what is wanted there, for specs, and what nodes report of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

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


def weights_record(node: Node, reports: Sequence[WeightsReport]) -> None:
    """Make the rows say what the node reports. Weights that it does not mention are not there; a row that nobody wants
    either goes."""
    rows = {(row.path, row.revision): row for row in NodeWeights.objects.filter(node=node)}
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
    new = (report.state, report.size_bytes, report.fetched_bytes, report.reason)
    if row.pk is None or (row.state, row.size_bytes, row.fetched_bytes, row.reason) != new:
        row.state, row.size_bytes, row.fetched_bytes, row.reason = new
        row.save()
