"""What nodes report of their workers, written into the observed columns. Nothing wanted is changed here.

A report is the truth and is never refused; what can't follow from what was seen before is logged. Only news that a plan
or a routing table may depend on asks for a reconcile, so that observing does not drive itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import structlog
from django.db import transaction

from controlplane.fleet.models import Device, Node
from controlplane.fleet.services import node_record_report
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.node_spec import node_specs_renew
from inference.contracts.reports import NodeReport, WorkerReport
from inference.contracts.states import NodePhase, WorkerDesired, WorkerPhase, may_move

log = structlog.get_logger()

#: Columns that a plan, an operation or the routing table is made from.
_DECISIVE = frozenset(
    {"phase", "attempts", "http_host", "http_port", "transfer_host", "transfer_port", "fingerprint", "context_length"}
)

_ENDED = frozenset({WorkerPhase.STOPPED, WorkerPhase.STOPPING, WorkerPhase.FAILED})


@dataclass(slots=True)
class _News:
    """Deployments by what a report said of their workers: anything new, something decisive."""

    shown: set[int] = field(default_factory=set)
    decisive: set[int] = field(default_factory=set)


@transaction.atomic
def report_record(report: NodeReport, *, received_at: datetime) -> None:
    """Write all that a node reported; a late report, or one of an unknown node, changes nothing."""
    offered = _devices_on_offer(report.node_id)
    node = node_record_report(report, received_at=received_at)
    if node is None:
        return
    workers = {str(each.pk): each for each in Worker.objects.filter(node=node).select_related("pool")}
    applied_all = report.observed_generation >= node.generation
    if _is_ahead(report, node, workers):
        node_specs_renew([node.pk])
    news = _News()
    for seen in report.workers:
        worker = workers.get(seen.worker_id)
        if worker is not None and str(worker.incarnation) == seen.incarnation:
            _write(worker, _columns(seen), received_at, news)
    if applied_all:
        _write_gone(workers.values(), report.workers, node, received_at, news)
    deployments_announce(news.shown)
    if _devices_on_offer(report.node_id) != offered:
        reconcile_request(Deployment.objects.values_list("pk", flat=True))
    else:
        reconcile_request(news.decisive)


def _devices_on_offer(node_id: str) -> set[str]:
    """Devices of the node that a plan may give out, or could if they were free: a change of these is for everybody."""
    try:
        offered = Device.objects.filter(node=UUID(node_id), node__phase=NodePhase.READY, missing=False)
    except ValueError:
        return set()
    return set(offered.values_list("device_id", flat=True))


def _is_ahead(report: NodeReport, node: Node, workers: dict[str, Worker]) -> bool:
    """Whether the node follows a spec that we know nothing of: the database was restored from an older copy. Then a
    spec of a higher generation makes it do what is wanted now; workers that we don't know are stopped by it."""
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


def _columns(seen: WorkerReport) -> dict[str, Any]:
    return {
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
        "load": None if seen.load is None else msgspec.to_builtins(seen.load),
        "log_tail": "\n".join(seen.log_tail),
    }


def _write_gone(
    workers: Iterable[Worker], reported: Sequence[WorkerReport], node: Node, moment: datetime, news: _News
) -> None:
    """The node has applied our newest spec and does not mention the worker: it does not run there."""
    mentioned = {each.worker_id for each in reported}
    gone = {**NOT_SEEN, "phase": WorkerPhase.STOPPED, "reason": f"{node.name} no longer runs it"}
    for worker in workers:
        if str(worker.pk) not in mentioned:
            _write(worker, gone, moment, news)


#: What is known of a worker that nobody sees: nothing, which is not zero.
NOT_SEEN: dict[str, Any] = {
    "next_start_s": None,
    "drain_left_s": None,
    "http_host": "",
    "http_port": None,
    "transfer_host": "",
    "transfer_port": None,
    "load": None,
}


def _write(worker: Worker, columns: dict[str, Any], moment: datetime, news: _News) -> None:
    """Save what differs, and note whom it concerns."""
    old, load = WorkerPhase(worker.phase), worker.load
    changed = {name for name, value in columns.items() if getattr(worker, name) != value}
    if not changed:
        return
    for name in changed:
        setattr(worker, name, columns[name])
    if "phase" in changed:
        _note_move(worker, old)
        worker.phase_since = moment
        changed.add("phase_since")
    worker.save(update_fields=changed)
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
