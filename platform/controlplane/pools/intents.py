"""Writing into running operations how far they have come."""

from __future__ import annotations

from controlplane.operations.models import Operation
from controlplane.operations.selectors import operations_holding
from controlplane.operations.services import operation_finish, operation_report
from controlplane.pools.progress import Progress
from controlplane.pools.workflows import PROGRESS
from controlplane.pools.workflows.look import Look
from controlplane.pools.workflows.targets import DEPLOYMENT, POOL, WORKER
from inference.contracts.states import OperationKind, OperationState


def intents_advance(look: Look) -> None:
    """Bring the operations of the deployment, its pools and its workers up to date."""
    running = operations_holding(
        {
            DEPLOYMENT: [str(look.deployment.pk)],
            POOL: [pool.pool_id for pool in look.pools],
            WORKER: [worker.worker_id for worker in (*look.workers, *look.gone)],
        }
    )
    for operation in running:
        progress = PROGRESS.get(OperationKind(operation.kind))
        if progress is not None:
            _write(operation, progress(operation, look))


def _write(operation: Operation, progress: Progress) -> None:
    operation_report(operation, progress.steps, progress.share)
    if progress.state != OperationState.RUNNING:
        operation_finish(operation, progress.state, progress.outcome)
