"""Reading the record of what operators asked for."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from controlplane.core.errors import NotFound
from controlplane.operations.models import Operation
from inference.contracts.states import OperationState

#: How many a list shows.
NEWEST = 50


def operation_list(*, limit: int = NEWEST) -> QuerySet[Operation]:
    """The newest first, with their steps."""
    return Operation.objects.prefetch_related("steps")[:limit]


def operation_get(operation_id: UUID) -> Operation:
    """
    Raises:
        NotFound: no operation has this id.
    """
    operation = Operation.objects.prefetch_related("steps").filter(pk=operation_id).first()
    if operation is None:
        raise NotFound("operation", str(operation_id))
    return operation


def operation_running(*, target_kind: str, target_id: str) -> Operation | None:
    """The operation that runs on this target; there is at most one."""
    return Operation.objects.filter(target_kind=target_kind, target_id=target_id, state=OperationState.RUNNING).first()
