"""Giving up on operations that run, or wait in the queue, for too long."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction

from controlplane.operations import transitions
from controlplane.operations.ending import operation_finish
from controlplane.operations.models import Operation
from controlplane.operations.running_time import running_seconds
from controlplane.operations.workflows import workflow_find
from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState

#: A sweep that is late counts in full up to this many intervals.
_INTERVALS = 3


def operations_expire(*, now: datetime) -> int:
    """The sweep's look at how long operations have run or waited; those for which it was too long fail; how many.

    Of one that runs (OPERATION_DEADLINE_S), the last step is the reason, and what was asked for stays wanted: only the
    record closes, so that no progress bar runs for ever. One that is queued (OPERATION_QUEUE_DEADLINE_S) has changed
    nothing.
    """
    failed = 0
    for operation in Operation.objects.filter(state__in=OPERATION_OPEN):
        operation.running_s = running_seconds(
            counted_s=operation.running_s,
            seen_at=operation.seen_at or operation.started_at or operation.requested_at,
            now=now,
            most_s=_INTERVALS * settings.SWEEP_INTERVAL_S,
        )
        # Only these two columns, and only in the state that was seen: one that moves on at this moment starts at zero.
        seen = Operation.objects.filter(pk=operation.pk, state=operation.state)
        if not seen.update(running_s=operation.running_s, seen_at=now):
            continue
        if operation.state == OperationState.QUEUED:
            failed += operation.running_s > settings.OPERATION_QUEUE_DEADLINE_S and _leave_queue(operation)
        elif operation.running_s > settings.OPERATION_DEADLINE_S and _expires(operation):
            failed += operation_finish(operation, OperationState.FAILED, _overdue(operation))
    return failed


@transaction.atomic
def _leave_queue(operation: Operation) -> bool:
    """Unless it has just begun."""
    if transitions.lock(operation) != OperationState.QUEUED:
        return False
    waited = f"Not begun after {settings.OPERATION_QUEUE_DEADLINE_S:g} s in the queue. It has changed nothing."
    return operation_finish(operation, OperationState.FAILED, waited)


def _expires(operation: Operation) -> bool:
    workflow = workflow_find(OperationKind(operation.kind))
    return workflow is None or workflow.expires


def _overdue(operation: Operation) -> str:
    last = operation.steps.last()
    standing = last.text if last is not None else "nothing has happened"
    return f"Not done after {settings.OPERATION_DEADLINE_S:g} s: {standing}. What was asked for stays wanted."
