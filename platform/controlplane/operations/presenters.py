"""Operation rows as the console sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from controlplane.core.clock import iso, iso_or_none
from controlplane.operations import selectors
from controlplane.operations.models import Operation, OperationStep, OperationTarget
from controlplane.operations.workflows import is_cancellable, is_retryable
from inference.contracts.states import OperationKind, OperationState, StepState
from inference.contracts.views.operations import OperationPreview, OperationStepView, OperationTargetView, OperationView

#: Where the console shows a target of each kind.
_PAGES = {
    "deployment": "/pools?deployment={name}",
    "pool": "/pools?pool={id}",
    "node": "/fleet?node={name}",
    "worker": "/pools?worker={id}",
    "model": "/models?model={name}",
}


def operation_views(operations: Iterable[Operation]) -> tuple[OperationView, ...]:
    """Any number of operations at a constant number of queries (prefetch "steps" and "targets")."""
    found = list(operations)
    behind = selectors.queued_behind(found)
    return tuple(_view(operation, behind.get(operation.pk, ())) for operation in found)


def operation_view(operation: Operation) -> OperationView:
    return operation_views([operation])[0]


def _view(operation: Operation, behind: Sequence[str]) -> OperationView:
    state, targets = OperationState(operation.state), list(operation.targets.all())
    return OperationView(
        id=str(operation.pk),
        kind=OperationKind(operation.kind),
        state=state,
        target=targets[0].name if targets else "",
        title=operation.title,
        requested_by=operation.requested_by,
        reason=operation.reason,
        before=operation.before,
        after=operation.after,
        progress=operation.progress,
        outcome=operation.outcome,
        requested_at=iso(operation.requested_at),
        started_at=iso_or_none(operation.started_at),
        finished_at=iso_or_none(operation.finished_at),
        steps=tuple(_step(step) for step in operation.steps.all()),
        targets=tuple(_target(target) for target in targets),
        preview=None if operation.preview is None else msgspec.convert(operation.preview, OperationPreview),
        queued_behind=tuple(behind),
        retry_of=None if operation.retry_of_id is None else str(operation.retry_of_id),
        cancellable=is_cancellable(operation),
        retryable=is_retryable(operation),
    )


def _step(step: OperationStep) -> OperationStepView:
    return OperationStepView(
        at=iso(step.started_at),
        text=step.text,
        state=StepState(step.state),
        finished_at=iso_or_none(step.finished_at),
        cause=step.cause,
    )


def _target(target: OperationTarget) -> OperationTargetView:
    page = _PAGES.get(target.kind, "")
    href = page.format(id=quote(target.target_id, safe=""), name=quote(target.name, safe=""))
    return OperationTargetView(kind=target.kind, id=target.target_id, name=target.name, href=href)
