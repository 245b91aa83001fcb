"""Ending an operation: whoever finds it done, or hopeless, says so once."""

from __future__ import annotations

from django.db import transaction

from controlplane.operations import transitions
from controlplane.operations.models import Operation
from controlplane.operations.queue import dequeue_on_commit
from inference.contracts.states import OperationState


@transaction.atomic
def operation_finish(operation: Operation, state: OperationState, outcome: str) -> bool:
    """Move an open operation to the final `state`, once. False when it had ended before (nothing is written then).

    Steps that still run end with it: done when it succeeded; when it failed, they are what failed, unless another step
    was blamed before; else they were not needed any more.
    """
    moved = transitions.end(operation, state, outcome)
    if moved:
        dequeue_on_commit()
    return moved
