"""Operation rows as the console sees them."""

from __future__ import annotations

from controlplane.core.clock import iso, iso_or_none
from controlplane.operations.models import Operation
from inference.contracts.console import OperationStepView, OperationView
from inference.contracts.states import OperationKind, OperationState


def operation_view(operation: Operation) -> OperationView:
    """The operation with its steps (prefetch "steps" for lists)."""
    return OperationView(
        id=str(operation.pk),
        kind=OperationKind(operation.kind),
        state=OperationState(operation.state),
        target=operation.target_name,
        title=operation.title,
        requested_by=operation.requested_by,
        reason=operation.reason,
        before=operation.before,
        after=operation.after,
        progress=operation.progress,
        outcome=operation.outcome,
        started_at=iso(operation.started_at),
        finished_at=iso_or_none(operation.finished_at),
        steps=tuple(OperationStepView(at=iso(step.at), text=step.text) for step in operation.steps.all()),
    )
