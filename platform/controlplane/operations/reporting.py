"""Telling at once how a running operation stands: all that is going on in it, and how much is done.

For callers that look again and again at many things. The number of queries does not depend on how many steps there are,
and consoles are told once; saying the same thing again changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from controlplane.core import clock
from controlplane.operations import transitions
from controlplane.operations.models import Operation, OperationStep
from controlplane.operations.standing import Standing
from controlplane.operations.steps import step_text
from inference.contracts.states import OperationState, StepState


@transaction.atomic
def operation_report(operation: Operation, standings: Sequence[Standing], share: float) -> None:
    """Make the steps of `operation` say what `standings` say; share: how much is done, 0..1 (clipped).

    A step that runs and is not mentioned any more is done. One that goes on after its end is a row of its own. Nothing
    is written once the operation has ended.
    """
    if transitions.lock(operation) != OperationState.RUNNING:
        return
    now, share = clock.now(), min(1.0, max(0.0, share))
    last = {step.key: step for step in operation.steps.exclude(key="").order_by("id")}
    mentioned = {standing.key for standing in standings}
    over = [step for step in last.values() if step.state == StepState.RUNNING and step.key not in mentioned]
    for ended in over:
        ended.state, ended.finished_at = StepState.DONE, now
    changed, new = list(over), []
    for standing in standings:
        step = last.get(standing.key)
        if step is not None and _says(step, standing):
            continue
        if step is not None and step.state == StepState.RUNNING:
            changed.append(_said(step, standing, now))
        elif step is None or step.state != standing.state:
            fresh = OperationStep(operation=operation, key=standing.key, started_at=now)
            new.append(_said(fresh, standing, now))
    moved = operation.progress != share
    if not (changed or new or moved):
        return
    OperationStep.objects.bulk_update(changed, ["text", "state", "cause", "finished_at"])
    OperationStep.objects.bulk_create(new)
    operation.progress = share
    operation.save(update_fields=["progress"])
    transitions.announce(operation)


def _says(step: OperationStep, standing: Standing) -> bool:
    return (step.text, step.state, step.cause) == (step_text(standing.text), standing.state, standing.cause)


def _said(step: OperationStep, standing: Standing, now: datetime) -> OperationStep:
    step.text, step.state, step.cause = step_text(standing.text), standing.state, standing.cause
    step.finished_at = None if standing.state == StepState.RUNNING else now
    return step
