"""Taking an operation back while it is open."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import Conflict
from controlplane.operations import selectors, transitions
from controlplane.operations.models import Operation
from controlplane.operations.queue import dequeue_on_commit
from controlplane.operations.starting import reason_check
from controlplane.operations.workflows import is_cancellable, workflow_of
from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState


@transaction.atomic
def operation_cancel(operation_id: UUID, *, by: str, reason: str = "") -> Operation:
    """Take it back: what was wanted before is wanted again. What waits in the queue has changed nothing, and just goes.

    Raises:
        NotFound: no such operation.
        Invalid: the reason is longer than a reason.
        Conflict: it has ended (code "operation_ended"), or its kind can't be taken back (code "not_cancellable").
        ControlError: whatever the workflow's `cancel` refuses with. Nothing is written then.
    """
    reason_check(reason)
    operation = selectors.operation_get(operation_id)
    workflow = None if operation.state not in OPERATION_OPEN else workflow_of(OperationKind(operation.kind))
    if workflow is not None and workflow.lock is not None:
        workflow.lock(operation)
    transitions.lock(operation)
    before = OperationState(operation.state)
    _require_cancellable(operation)
    outcome = "It had not begun."
    if before == OperationState.RUNNING and workflow is not None and workflow.cancel is not None:
        outcome = workflow.cancel(operation)
    said = f"Cancelled by {by}{f': {reason}' if reason else ''}. {outcome}"
    transitions.end(operation, OperationState.CANCELLED, said, cancelled_by=by)
    record(
        action="operation.cancel",
        target_kind="operation",
        target_id=operation.pk,
        target_name=operation.title,
        before={"state": before},
        after={"state": operation.state, "outcome": operation.outcome},
        reason=reason,
    )
    dequeue_on_commit()
    return operation


def _require_cancellable(operation: Operation) -> None:
    if operation.state not in OPERATION_OPEN:
        raise Conflict(
            f'"{operation.title}" has ended already: {operation.state}.',
            code="operation_ended",
            current={"state": operation.state, "outcome": operation.outcome},
        )
    if not is_cancellable(operation):
        raise Conflict(
            f'"{operation.title}" can\'t be taken back once it runs; ask for the opposite instead.',
            code="not_cancellable",
            current={"state": operation.state},
        )
