"""Trying again what failed or was cancelled."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import Conflict
from controlplane.operations import conflicts, selectors, transitions
from controlplane.operations.models import Operation
from controlplane.operations.starting import operation_start
from controlplane.operations.workflows import OnConflict, is_retryable, workflow_of
from inference.contracts.states import OperationKind


@transaction.atomic
def operation_retry(
    operation_id: UUID, *, by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """Begin a new operation with the same request; it names the one that it tries again.

    Raises:
        NotFound: no such operation.
        Conflict: it is open, succeeded or was superseded, or its kind can't be begun again (code "not_retryable");
            or another operation has one of its targets (code "operation_conflict").
        ControlError: whatever `operation_start` refuses with.
    """
    operation = selectors.operation_get(operation_id)
    _require_retryable(operation)
    workflow = workflow_of(OperationKind(operation.kind))
    if workflow.lock is not None:
        workflow.lock(operation)
    transitions.lock(operation)  # two retries of one operation take turns
    again = operation_start(
        kind=OperationKind(operation.kind),
        targets=conflicts.targets_of(operation),
        title=operation.title,
        requested_by=by,
        request=operation.request,
        deployment=operation.deployment,
        reason=reason,
        before=operation.before,
        after=operation.after,
        on_conflict=on_conflict,
        retry_of=operation,
    )
    record(
        action="operation.retry",
        target_kind="operation",
        target_id=operation.pk,
        target_name=operation.title,
        before={"state": operation.state, "outcome": operation.outcome},
        after={"operation": str(again.pk), "state": again.state},
        reason=reason,
    )
    return again


def _require_retryable(operation: Operation) -> None:
    if not is_retryable(operation):
        raise Conflict(
            f'"{operation.title}" is {operation.state} and can\'t be tried again: only what failed or was cancelled '
            "can be, and not every kind of operation. Make a new request instead.",
            code="not_retryable",
            current={"state": operation.state},
        )
