"""Queued operations: each begins when nothing that was asked for before it stands in its way any more."""

from __future__ import annotations

import structlog
from django.db import transaction

from controlplane.core.errors import ControlError
from controlplane.operations import conflicts, transitions
from controlplane.operations.models import Operation
from controlplane.operations.workflows import workflow_of
from inference.contracts.states import OperationKind, OperationState

log = structlog.get_logger()


def operations_dequeue() -> int:
    """Begin the queued operations that can, in order of request; how many began.

    One whose beginning is refused ends as failed, with the refusal as its outcome. Called whenever an operation has
    ended, and by the sweep: a call that got lost costs one sweep interval.
    """
    began = ended = 0
    for operation in _queued():
        try:
            state = _begin(operation)
        except Exception:
            # One operation's trouble must not keep the others waiting; the next sweep tries again.
            log.exception("queued operation not begun", operation=str(operation.pk))
            continue
        began += state == OperationState.RUNNING
        ended += state == OperationState.FAILED
    if began or ended:
        _announce_waiting()
    return began


def dequeue_on_commit() -> None:
    """Have the queue looked at once the running transaction, in which an operation ended, is committed."""
    transaction.on_commit(_move_up, robust=True)


def _move_up() -> None:
    if not operations_dequeue():
        _announce_waiting()  # what they wait for may be another operation now


def _queued() -> list[Operation]:
    return list(conflicts.in_order(Operation.objects.filter(state=OperationState.QUEUED)))


@transaction.atomic
def _begin(operation: Operation) -> OperationState:
    """The state in which the operation is after the attempt."""
    workflow = workflow_of(OperationKind(operation.kind))
    try:
        if workflow.lock is not None:
            workflow.lock(operation)
        if transitions.lock(operation) != OperationState.QUEUED or conflicts.ahead_of(operation):
            return OperationState.QUEUED
        with transaction.atomic():
            transitions.run(operation)
            workflow.begin(operation)
    except transitions.Taken:
        return OperationState.QUEUED
    except ControlError as refusal:
        transitions.end(operation, OperationState.FAILED, refusal.message)
        return OperationState.FAILED
    log.info("operation left the queue", operation=str(operation.pk), title=operation.title)
    transitions.announce(operation)
    return OperationState.RUNNING


def _announce_waiting() -> None:
    for operation in _queued():
        transitions.announce(operation)
