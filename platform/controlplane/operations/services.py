"""Writing the record of what operators asked for.

An operation leaves RUNNING once, by compare-and-set, so two processes that find it done agree on one outcome. Steps and
progress are written only while it runs. Every change is one `OperationChanged` for the console.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.core import clock
from controlplane.core.broadcast import broadcast
from controlplane.core.errors import Invalid
from controlplane.operations import selectors
from controlplane.operations.models import Operation, OperationStep
from controlplane.operations.presenters import operation_view
from inference.contracts.console import OperationChanged
from inference.contracts.states import OperationKind, OperationState

log = structlog.get_logger()

#: A reason travels with every event of its operation.
REASON_MAX = 500

_STEP_TEXT_MAX = 300

#: More than the processes that may change one target at the same moment.
_ATTEMPTS = 8


@transaction.atomic
def operation_start(
    *,
    kind: OperationKind,
    target_kind: str,
    target_id: str,
    target_name: str,
    target_generation: int,
    title: str,
    requested_by: str,
    reason: str = "",
    before: str = "",
    after: str = "",
) -> Operation:
    """Record a new intent; the one that still runs on the same target, if any, is superseded by it.

    Raises:
        Invalid: the reason is longer than a reason.
    """
    if len(reason) > REASON_MAX:
        raise Invalid(f"A reason has at most {REASON_MAX} characters; this one has {len(reason)}.", field="reason")
    operation = Operation(
        kind=kind,
        target_kind=target_kind,
        target_id=target_id,
        target_name=target_name,
        target_generation=target_generation,
        title=title,
        requested_by=requested_by,
        reason=reason,
        before=before,
        after=after,
        started_at=clock.now(),
    )
    _take_over(operation)
    log.info("operation started", operation=str(operation.pk), title=title, requested_by=requested_by)
    _announce(operation)
    return operation


def _take_over(operation: Operation) -> None:
    """Store `operation` as the one that runs on its target.

    The database lets one run per target. Where another process stores its own between our two statements, that one came
    first and ours supersedes it in turn.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        running = selectors.operation_running(target_kind=operation.target_kind, target_id=operation.target_id)
        if running is not None:
            operation_finish(running, OperationState.SUPERSEDED, f"{operation.title} took over.")
        try:
            with transaction.atomic():
                operation.save(force_insert=True)
            return
        except IntegrityError:
            if attempt == _ATTEMPTS:
                raise


@transaction.atomic
def operation_step(operation: Operation, text: str) -> None:
    """Note what happened on the way. The same text twice in a row, or a step after the end, is not written."""
    text = text if len(text) <= _STEP_TEXT_MAX else f"{text[: _STEP_TEXT_MAX - 1]}…"
    if not _lock_running(operation):
        return
    last = operation.steps.order_by("-id").first()
    if last is not None and last.text == text:
        return
    OperationStep.objects.create(operation=operation, at=clock.now(), text=text)
    _announce(operation)


@transaction.atomic
def operation_progress(operation: Operation, share: float) -> None:
    """Say how much is done, 0..1 (clipped). It may fall: a worker that dies on the way is not done any more."""
    share = min(1.0, max(0.0, share))
    if not _lock_running(operation) or operation.progress == share:
        return
    operation.progress = share
    operation.save(update_fields=["progress"])
    _announce(operation)


@transaction.atomic
def operation_finish(operation: Operation, state: OperationState, outcome: str) -> bool:
    """Move from RUNNING to `state`, once. False when somebody else finished it before (nothing is written then)."""
    if state == OperationState.RUNNING:
        raise ValueError("an operation finishes as succeeded, failed or superseded, not as running")
    changes = {"state": state, "outcome": outcome, "finished_at": clock.now()}
    if state == OperationState.SUCCEEDED:
        changes["progress"] = 1.0
    moved = Operation.objects.filter(pk=operation.pk, state=OperationState.RUNNING).update(**changes) == 1
    operation.refresh_from_db()
    if moved:
        log.info("operation finished", operation=str(operation.pk), state=state, outcome=outcome)
        _announce(operation)
    return moved


def operations_expire(*, now: datetime) -> int:
    """Fail what has run longer than OPERATION_DEADLINE_S, with its last step as the reason; how many.

    What was asked for stays wanted: only the record closes, so that no progress bar runs for ever.
    """
    overdue = Operation.objects.filter(
        state=OperationState.RUNNING, started_at__lt=now - timedelta(seconds=settings.OPERATION_DEADLINE_S)
    )
    return sum(operation_finish(operation, OperationState.FAILED, _overdue(operation)) for operation in overdue)


def _overdue(operation: Operation) -> str:
    last = operation.steps.last()
    standing = last.text if last is not None else "nothing has happened"
    return f"Not done after {settings.OPERATION_DEADLINE_S:g} s: {standing}. What was asked for stays wanted."


def _lock_running(operation: Operation) -> bool:
    """Take the row lock and the row's present values; whether it still runs."""
    operation.refresh_from_db(from_queryset=Operation.objects.select_for_update())
    return operation.state == OperationState.RUNNING


def _announce(operation: Operation) -> None:
    broadcast(OperationChanged(operation=operation_view(operation)))
