"""Recording a new intent: it begins at once, is refused because of what runs there already, or waits in the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import structlog
from django.db import transaction

from controlplane.core import clock
from controlplane.core.errors import Invalid
from controlplane.core.locking import locked
from controlplane.operations import conflicts, transitions
from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.queue import dequeue_on_commit
from controlplane.operations.workflows import OnConflict, Target, workflow_of
from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState
from inference.contracts.views.operations import OperationPreview

log = structlog.get_logger()

#: A reason travels with every event of its operation.
REASON_MAX = 500

#: More than the processes that may change one target at the same moment.
_ATTEMPTS = 8


@transaction.atomic
def operation_start(
    *,
    kind: OperationKind,
    targets: Sequence[Target],
    title: str,
    requested_by: str,
    request: Mapping[str, Any],
    deployment: str = "",
    reason: str = "",
    before: str = "",
    after: str = "",
    preview: OperationPreview | None = None,
    on_conflict: OnConflict = OnConflict.REFUSE,
    retry_of: Operation | None = None,
    supersede_all: bool = False,
) -> Operation:
    """Record an intent, and begin it unless it has to wait. The first target is the one that it is shown under.

    request: JSON values, enough for the workflow's `begin`. deployment: name of the one that it is about: roles
    that are granted there count for it. supersede_all: whatever is open on the targets gives way; else only what the
    workflow says.

    Raises:
        Invalid: the reason is longer than a reason.
        Conflict: code "operation_conflict": another operation has one of the targets, and this one is not to wait.
        ControlError: whatever the workflow's `begin` refuses with. Nothing is written then.
        LookupError: nobody registered this kind.
    """
    reason_check(reason)
    workflow = workflow_of(kind)
    operation = Operation(
        kind=kind,
        title=title,
        requested_by=requested_by,
        deployment=deployment,
        request=dict(request),
        reason=reason,
        before=before,
        after=after,
        preview=None if preview is None else msgspec.to_builtins(preview),
        retry_of=retry_of,
        requested_at=clock.now(),
    )
    _take_place(operation, targets, on_conflict, supersede_all=supersede_all)
    if operation.state == OperationState.RUNNING:
        workflow.begin(operation)
    log.info("operation requested", operation=str(operation.pk), title=title, state=operation.state, by=requested_by)
    transitions.announce(operation)
    return operation


def reason_check(reason: str) -> None:
    """
    Raises:
        Invalid: the reason is longer than a reason.
    """
    if len(reason) > REASON_MAX:
        raise Invalid(f"A reason has at most {REASON_MAX} characters; this one has {len(reason)}.", field="reason")


def _take_place(
    operation: Operation, targets: Sequence[Target], on_conflict: OnConflict, *, supersede_all: bool
) -> None:
    """Store `operation` as running or queued.

    The database lets one operation hold a target. Where another process takes hold between our look and our own
    attempt, that one came first, and we look again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with transaction.atomic():
                _try_place(operation, targets, on_conflict, supersede_all=supersede_all)
            return
        except transitions.Taken:
            if attempt == _ATTEMPTS:
                raise


def _try_place(
    operation: Operation, targets: Sequence[Target], on_conflict: OnConflict, *, supersede_all: bool
) -> None:
    found = conflicts.rivals(OperationKind(operation.kind), targets, supersede_all=supersede_all)
    if found.in_the_way and on_conflict == OnConflict.REFUSE:
        raise conflicts.conflict(found.in_the_way[0], targets)
    waits = bool(found.in_the_way)
    if waits and not _still_open(found.in_the_way):
        raise transitions.Taken
    for other in found.gives_way:
        transitions.end(other, OperationState.SUPERSEDED, f"{operation.title} took over.")
    if found.gives_way:
        dequeue_on_commit()
    operation.state, operation.started_at = OperationState.QUEUED, None
    operation.save(force_insert=True)
    for target in targets:
        OperationTarget.objects.create(operation=operation, kind=target.kind, target_id=target.id, name=target.name)
    if not waits:
        transitions.run(operation)


def _still_open(operations: Sequence[Operation]) -> bool:
    """Lock them until we are in the queue: whichever ends after that finds us there."""
    ids = [operation.pk for operation in operations]
    rows = locked(Operation.objects).filter(pk__in=ids).order_by("pk")
    return all(operation.state in OPERATION_OPEN for operation in rows)
