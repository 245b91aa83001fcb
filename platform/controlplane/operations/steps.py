"""What happens on the way of a running operation. Nothing is written once it has ended, or while it waits.

Both functions are made for callers that look again and again: saying the same thing twice changes nothing.
"""

from __future__ import annotations

from django.db import transaction

from controlplane.core import clock
from controlplane.operations import transitions
from controlplane.operations.models import Operation, OperationStep
from inference.contracts.states import OperationState, StepState

_TEXT_MAX = 300


@transaction.atomic
def operation_step(
    operation: Operation, text: str, *, key: str | None = None, state: StepState = StepState.DONE, cause: str = ""
) -> None:
    """Note what happens.

    Without a key it is a remark; the same one twice in a row is written once. A step with a key is one row that begins
    and ends; while it runs, its text may change. One that runs again after its end is a row of its own.

    Raises:
        ValueError: a remark can't be running: nobody could end it.
    """
    if key is None and state == StepState.RUNNING:
        raise ValueError("a step that is not over needs a key, so that it can be ended")
    if transitions.lock(operation) != OperationState.RUNNING:
        return
    rows = operation.steps.order_by("-id")
    last = (rows if key is None else rows.filter(key=key)).first()
    said = (step_text(text), state, cause)
    if last is not None and last.key == (key or "") and (last.text, last.state, last.cause) == said:
        return
    step = last if key is not None and last is not None and last.state == StepState.RUNNING else None
    now = clock.now()
    step = step or OperationStep(operation=operation, key=key or "", started_at=now)
    step.text, step.state, step.cause = said
    step.finished_at = None if state == StepState.RUNNING else now
    step.save()
    transitions.announce(operation)


def step_text(text: str) -> str:
    """As much of it as a step keeps."""
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


@transaction.atomic
def operation_progress(operation: Operation, share: float) -> None:
    """Say how much is done, 0..1 (clipped). It may fall: a worker that dies on the way is not done any more."""
    share = min(1.0, max(0.0, share))
    if transitions.lock(operation) != OperationState.RUNNING or operation.progress == share:
        return
    operation.progress = share
    operation.save(update_fields=["progress"])
    transitions.announce(operation)
