"""Giving up on operations that run for too long."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from controlplane.operations.ending import operation_finish
from controlplane.operations.models import Operation
from controlplane.operations.running_time import running_seconds
from controlplane.operations.workflows import workflow_find
from inference.contracts.states import OperationKind, OperationState

#: A sweep that is late counts in full up to this many intervals.
_INTERVALS = 3


def operations_expire(*, now: datetime) -> int:
    """The sweep's look at how long operations have run: those over OPERATION_DEADLINE_S fail; how many.

    Their last step is the reason. What was asked for stays wanted: only the record closes, so that no progress bar
    runs for ever.
    """
    failed = 0
    for operation in Operation.objects.filter(state=OperationState.RUNNING):
        operation.running_s = running_seconds(
            counted_s=operation.running_s,
            seen_at=operation.seen_at or operation.started_at or now,
            now=now,
            most_s=_INTERVALS * settings.SWEEP_INTERVAL_S,
        )
        # Only these two columns, and nobody else writes them: an operation that ends at this moment stays ended.
        Operation.objects.filter(pk=operation.pk).update(running_s=operation.running_s, seen_at=now)
        if operation.running_s > settings.OPERATION_DEADLINE_S and _expires(operation):
            failed += operation_finish(operation, OperationState.FAILED, _overdue(operation))
    return failed


def _expires(operation: Operation) -> bool:
    workflow = workflow_find(OperationKind(operation.kind))
    return workflow is None or workflow.expires


def _overdue(operation: Operation) -> str:
    last = operation.steps.last()
    standing = last.text if last is not None else "nothing has happened"
    return f"Not done after {settings.OPERATION_DEADLINE_S:g} s: {standing}. What was asked for stays wanted."
