"""What nodes report of their workers, written into the observed columns. Nothing wanted is changed here.

A report is the truth and is never refused; what can't follow from what was seen before is logged. Only news that a plan
or a routing table may depend on asks for a reconcile, so that observing does not drive itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.db import transaction
from django.db.models import Count

from controlplane.core import clock
from controlplane.core.bulk import rows_write
from controlplane.fleet.services import Received, Recorded, nodes_record_reports
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.node_spec import node_specs_renew
from controlplane.pools.showing import Turns
from inference.contracts.reports import WorkerReport
from inference.contracts.states import WorkerDesired, WorkerPhase, may_move

log = structlog.get_logger()

#: Columns that a plan, an operation or the routing table is made from.
_DECISIVE = frozenset(
    {
        "phase",
        "attempts",
        "http_host",
        "http_port",
        "transfer_host",
        "transfer_port",
        "fingerprint",
        "context_length",
        "abilities",
        "observed_role",
        "refused_role",
    }
)

_ENDED = frozenset({WorkerPhase.STOPPED, WorkerPhase.STOPPING, WorkerPhase.FAILED})

_WRITTEN = (
    *_DECISIVE,
    *("phase_since", "reason", "next_start_s", "drain_left_s", "load", "log_tail"),
)


_turns = Turns()


@dataclass(slots=True)
class _News:
    """Workers that changed, those apart of which only the load did; and their deployments by what reports said of
    them: anything new, something decisive."""

    busy: list[Worker] = field(default_factory=list)
    changed: list[Worker] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    decisive: set[int] = field(default_factory=set)


@transaction.atomic
def reports_record(received: Sequence[Received]) -> None:
    """Write all that nodes reported, in a number of queries that does not depend on how many they are. A late report,
    or one of an unknown node, changes nothing."""
    recorded = nodes_record_reports(received)
    rows = Worker.objects.filter(node__in=[each.node for each in recorded]).select_related("pool")
    workers: dict[UUID, dict[str, Worker]] = defaultdict(dict)
    for row in rows:
        workers[row.node_id][str(row.pk)] = row
    news = _News()
    ahead = [each.node.pk for each in recorded if _is_ahead(each, workers[each.node.pk])]
    for each in recorded:
        _note(each, workers[each.node.pk], news)
    rows_write(news.busy, ["load"])
    rows_write(news.changed, _WRITTEN)
    if ahead:
        node_specs_renew(ahead)
    deployments_announce(_turns.due(news.shown, _sizes(), clock.now(), decisive=news.decisive))
    if any(each.devices_changed for each in recorded):
        reconcile_request(Deployment.objects.values_list("pk", flat=True), news=True)
    else:
        reconcile_request(news.decisive, news=True)


def _sizes() -> dict[int, int]:
    """Workers by deployment."""
    counted = Worker.objects.order_by().values_list("pool__deployment").annotate(Count("pk"))
    return dict(counted)


def _note(recorded: Recorded, workers: Mapping[str, Worker], news: _News) -> None:
    """Put what one node said of its workers into their rows (not saved yet)."""
    report, node = recorded.report, recorded.node
    applied_all = report.observed_generation >= node.generation
    for seen in report.workers:
        worker = workers.get(seen.worker_id)
        if worker is not None and str(worker.incarnation) == seen.incarnation:
            _put(worker, _columns(seen, applied_all=applied_all), recorded.at, news)
    if not applied_all:
        return
    mentioned = {each.worker_id for each in report.workers}
    gone = {**NOT_SEEN, "phase": WorkerPhase.STOPPED, "reason": f"{node.name} no longer runs it"}
    for worker_id, worker in workers.items():
        if worker_id not in mentioned:
            _put(worker, gone, recorded.at, news)


def _is_ahead(recorded: Recorded, workers: Mapping[str, Worker]) -> bool:
    """Whether the node follows a spec that we know nothing of: the database was restored from an older copy. Then a
    spec of a higher generation makes it do what is wanted now; workers that we don't know are stopped by it."""
    report, node = recorded.report, recorded.node
    if report.observed_generation > node.generation:
        log.warning("node is ahead of us", node=node.name, observed=report.observed_generation, ours=node.generation)
        node.generation = report.observed_generation
        node.save(update_fields=["generation"])
        return True
    unknown = [each for each in report.workers if each.worker_id not in workers and each.phase not in _ENDED]
    if unknown and report.observed_generation == node.generation:
        log.warning(
            "node runs workers that we don't know", node=node.name, workers=[each.worker_id for each in unknown]
        )
        return True
    return False


def _columns(seen: WorkerReport, *, applied_all: bool) -> dict[str, Any]:
    """applied_all: the node knows all that is wanted of it, so a refusal is about that and not about something that
    was wanted earlier."""
    refused = seen.refused_role if applied_all else None
    return {
        "observed_role": seen.role,
        "refused_role": refused or "",
        "phase": seen.phase,
        "reason": seen.reason,
        "attempts": seen.attempts,
        "next_start_s": seen.next_start_s,
        "drain_left_s": seen.drain_left_s,
        "http_host": seen.http.host[:255] if seen.http else "",
        "http_port": seen.http.port if seen.http else None,
        "transfer_host": seen.transfer.host[:255] if seen.transfer else "",
        "transfer_port": seen.transfer.port if seen.transfer else None,
        "fingerprint": (seen.fingerprint or "")[:128],
        "context_length": seen.context_length,
        "abilities": None if seen.abilities is None else msgspec.to_builtins(seen.abilities),
        "load": None if seen.load is None else msgspec.to_builtins(seen.load),
        "log_tail": "\n".join(seen.log_tail),
    }


#: What is known of a worker that nobody sees: nothing, which is not zero.
NOT_SEEN: dict[str, Any] = {
    "observed_role": "",
    "refused_role": "",
    "next_start_s": None,
    "drain_left_s": None,
    "http_host": "",
    "http_port": None,
    "transfer_host": "",
    "transfer_port": None,
    "load": None,
}

#: A worker that took requests when its node fell silent may take them still (see `selectors.workers_routable`): where
#: it was stays known, and as what; not what it does.
OUT_OF_SIGHT: dict[str, Any] = {
    column: NOT_SEEN[column] for column in ("refused_role", "next_start_s", "drain_left_s", "load")
}


def _put(worker: Worker, columns: dict[str, Any], moment: datetime, news: _News) -> None:
    """Change what differs, and note whom it concerns."""
    old, load = WorkerPhase(worker.phase), worker.load
    changed = {name for name, value in columns.items() if getattr(worker, name) != value}
    if not changed:
        return
    for name in changed:
        setattr(worker, name, columns[name])
    if "phase" in changed:
        _note_move(worker, old)
        worker.phase_since = moment
    (news.busy if changed == {"load"} else news.changed).append(worker)
    news.shown.add(worker.pool.deployment_id)
    counts_down = worker.desired == WorkerDesired.DRAIN and worker.load != load
    if changed & _DECISIVE or counts_down:
        news.decisive.add(worker.pool.deployment_id)


def _note_move(worker: Worker, old: WorkerPhase) -> None:
    new = WorkerPhase(worker.phase)
    details = {"worker": worker.name, "worker_id": str(worker.pk), "old": old, "new": new, "reason": worker.reason}
    if may_move(old, new):
        log.info("worker changed", **details)
    else:
        log.warning("worker jumped: phases in between were not seen, or its agent is wrong", **details)
