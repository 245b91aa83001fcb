"""The sweep's look at all open operations. A lost message costs one sweep interval, never an operation."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from controlplane.operations import transitions
from controlplane.operations.expiry import operations_expire
from controlplane.operations.models import Operation
from controlplane.operations.queue import operations_dequeue
from controlplane.operations.workflows import Workflow, workflow_find
from inference.contracts.states import OperationKind, OperationState

log = structlog.get_logger()


def operations_sweep(*, now: datetime) -> None:
    """Advance what runs, give up on what runs for too long, begin what may."""
    operations_advance()
    operations_expire(now=now)
    operations_dequeue()


def operations_advance() -> None:
    """Have the owner of each running operation look at it, where its workflow says how."""
    for operation in Operation.objects.filter(state=OperationState.RUNNING).prefetch_related("targets"):
        workflow = workflow_find(OperationKind(operation.kind))
        if workflow is None or workflow.advance is None:
            continue
        try:
            _advance(operation, workflow)
        except Exception:
            # One operation's trouble must not keep the others from being looked at; the next sweep tries again.
            log.exception("operation not advanced", operation=str(operation.pk))


@transaction.atomic
def _advance(operation: Operation, workflow: Workflow) -> None:
    if workflow.lock is not None:
        workflow.lock(operation)
    if workflow.advance is not None and transitions.lock(operation) == OperationState.RUNNING:
        workflow.advance(operation)
