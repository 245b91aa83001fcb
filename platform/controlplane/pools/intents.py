"""Writing into running operations how far they have come."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.operations.models import Operation
from controlplane.operations.selectors import operation_running
from controlplane.operations.services import operation_finish, operation_progress, operation_step
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.pairing import conflicts, serves
from controlplane.pools.plan import Plan, Snapshot
from controlplane.pools.presenters import worker_peer
from controlplane.pools.progress import Progress, deleting_progress, scaling_progress
from inference.contracts.states import OperationKind, OperationState, WorkerDesired

DEPLOYMENT = "deployment"
POOL = "pool"


def intents_advance(deployment: Deployment, seen: Snapshot, made: Plan, *, gone: Sequence[str]) -> None:
    """Bring the operations of the deployment and its pools up to date.

    seen: the state after `made` was applied. gone: names of workers that left with it.
    """
    whole = operation_running(target_kind=DEPLOYMENT, target_id=str(deployment.pk))
    if whole is not None and whole.kind == OperationKind.DELETE:
        _write(whole, deleting_progress(seen.pools, seen.workers), gone)
    elif whole is not None:
        unmet = [each.reason for each in (*made.wait, *made.refused)]
        conflict = _conflict(deployment)
        _write(
            whole,
            scaling_progress(
                seen.pools, seen.workers, unmet=unmet, since=whole.started_at or whole.requested_at, conflict=conflict
            ),
            gone,
        )
    for pool in seen.pools:
        operation = operation_running(target_kind=POOL, target_id=pool.pool_id)
        if operation is not None:
            workers = [worker for worker in seen.workers if worker.pool_id == pool.pool_id]
            unmet = [each.reason for each in (*made.wait, *made.refused) if each.pool_id == pool.pool_id]
            ours = [name for name in gone if name.startswith(f"{pool.role}-")]
            _write(
                operation,
                scaling_progress([pool], workers, unmet=unmet, since=operation.started_at or operation.requested_at),
                ours,
            )


def _write(operation: Operation, progress: Progress, gone: Sequence[str]) -> None:
    """Each text is noted once: several workers on their way would otherwise repeat their lines in turn."""
    noted = set(operation.steps.values_list("text", flat=True))
    for text in (*(f"{name} is gone" for name in gone), *progress.steps):
        if text not in noted:
            operation_step(operation, text)
    operation_progress(operation, progress.share)
    if progress.state != OperationState.RUNNING:
        operation_finish(operation, progress.state, progress.outcome)


def _conflict(deployment: Deployment) -> str:
    """Why ready workers can't serve together; empty when they can, or when nothing stands against it."""
    workers = Worker.objects.filter(pool__deployment=deployment, desired=WorkerDesired.RUN)
    rows = {str(worker.pk): worker for worker in workers.select_related("pool", "node")}
    peers = [worker_peer(worker) for worker in rows.values()]
    if serves(peers):
        return ""
    return next((f"{rows[worker_id].name} {why}." for worker_id, why in conflicts(peers).items()), "")
