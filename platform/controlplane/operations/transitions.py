"""The moves of an operation's row, and the hold on its targets that goes with them.

Each move is a compare-and-set, so that two processes that see the same thing agree on one outcome. The modules beside
this one decide when to move; only this one writes `state` and `held`.
"""

from __future__ import annotations

import structlog
from django.db import IntegrityError, transaction

from controlplane.core import clock
from controlplane.core.broadcast import broadcast
from controlplane.core.locking import locked
from controlplane.operations.models import Operation, OperationStep
from controlplane.operations.presenters import operation_view
from inference.contracts.console import OperationChanged
from inference.contracts.states import OPERATION_OPEN, OperationState, StepState

log = structlog.get_logger()


def lock(operation: Operation) -> OperationState:
    """Take the row lock and the row's present values; the state that it is in."""
    operation.refresh_from_db(from_queryset=locked(Operation.objects))
    return OperationState(operation.state)


class Taken(Exception):
    """Another operation took hold of one of the targets first."""


def run(operation: Operation) -> None:
    """Take hold of the targets of a queued operation, and run.

    Raises:
        Taken: nothing was changed.
    """
    try:
        with transaction.atomic():
            # In the same order everywhere: two that want the same targets never wait for each other.
            for target in operation.targets.order_by("kind", "target_id"):
                operation.targets.filter(pk=target.pk).update(held=True)
    except IntegrityError as error:
        raise Taken from error
    operation.state, operation.started_at = OperationState.RUNNING, clock.now()
    operation.running_s, operation.seen_at = 0.0, None
    operation.save(update_fields=["state", "started_at", "running_s", "seen_at"])


def end(operation: Operation, state: OperationState, outcome: str, *, cancelled_by: str = "") -> bool:
    """Move an open operation to `state`, once, and let go of its targets. False when it had ended before."""
    if state in OPERATION_OPEN:
        raise ValueError(f"an operation that ends is not {state} any more")
    now = clock.now()
    changes = {"state": state, "outcome": outcome, "finished_at": now, "cancelled_by": cancelled_by}
    if state == OperationState.SUCCEEDED:
        changes["progress"] = 1.0
    moved = Operation.objects.filter(pk=operation.pk, state__in=OPERATION_OPEN).update(**changes) == 1
    operation.refresh_from_db()
    if moved:
        operation.targets.filter(held=True).update(held=False)
        _close_steps(operation, state, outcome)
        log.info("operation ended", operation=str(operation.pk), state=state, outcome=outcome)
        announce(operation)
    return moved


def _close_steps(operation: Operation, state: OperationState, outcome: str) -> None:
    """No step runs on when its operation has ended.

    Of an operation that failed, what it was at is what failed, unless another step was blamed before.
    """
    if state == OperationState.SUCCEEDED:
        closed, cause = StepState.DONE, None
    elif state == OperationState.FAILED and not operation.steps.filter(state=StepState.FAILED).exists():
        closed, cause = StepState.FAILED, outcome
    else:
        closed, cause = StepState.SKIPPED, outcome
    changes = {"state": closed, "finished_at": operation.finished_at} | ({} if cause is None else {"cause": cause})
    OperationStep.objects.filter(operation=operation, state=StepState.RUNNING).update(**changes)


def announce(operation: Operation) -> None:
    """Tell consoles what the operation is now."""
    broadcast(OperationChanged(operation=operation_view(operation)))
