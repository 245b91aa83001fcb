"""Reading the record of what operators asked for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Q, QuerySet

from controlplane.core.errors import NotFound
from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.workflows import Target
from inference.contracts.states import OPERATION_OPEN, OperationState

#: How many a list shows.
NEWEST = 50


def operation_all() -> QuerySet[Operation]:
    """The newest first, with all that is shown of them."""
    return Operation.objects.prefetch_related("steps", "targets")


def operations_visible(*, only: Collection[str] | None, on: Target | None = None) -> QuerySet[Operation]:
    """The newest first. only: where not None, names of the deployments that the asking may see. on: the target that
    they are to have; its name does not matter."""
    found = operation_all()
    if only is not None:
        found = found.filter(deployment__in=only)
    if on is not None:
        rows = OperationTarget.objects.filter(kind=on.kind, target_id=on.id)
        found = found.filter(pk__in=rows.values("operation"))
    return found


def deployment_of(operation_id: UUID) -> str:
    """Name of the deployment that an operation is about. Empty where it is about none, or is not there: what is done to
    nodes tells of all deployments, so who may see some only may not see that."""
    return Operation.objects.filter(pk=operation_id).values_list("deployment", flat=True).first() or ""


def operation_list(*, limit: int = NEWEST) -> QuerySet[Operation]:
    """The newest first."""
    return operation_all()[:limit]


def operation_get(operation_id: UUID) -> Operation:
    """
    Raises:
        NotFound: no operation has this id.
    """
    operation = operation_all().filter(pk=operation_id).first()
    if operation is None:
        raise NotFound("operation", str(operation_id))
    return operation


def operation_running(*, target_kind: str, target_id: str) -> Operation | None:
    """The operation that runs on this target; there is at most one."""
    return Operation.objects.filter(targets__kind=target_kind, targets__target_id=target_id, targets__held=True).first()


def operations_holding(targets: Mapping[str, Iterable[str]]) -> QuerySet[Operation]:
    """Running operations that hold any of these targets, ids by kind; each once, the oldest first."""
    named = reduce(or_, (Q(kind=kind, target_id__in=list(ids)) for kind, ids in targets.items()))
    held = OperationTarget.objects.filter(named, held=True).values("operation")
    return Operation.objects.filter(pk__in=held).order_by("requested_at", "pk")


def targets_under_operation(kind: str, ids: Iterable[str]) -> set[str]:
    """Those of these targets that an open operation works on, or waits for."""
    rows = OperationTarget.objects.filter(kind=kind, target_id__in=list(ids), operation__state__in=OPERATION_OPEN)
    return set(rows.values_list("target_id", flat=True))


def queued_behind(operations: Iterable[Operation]) -> dict[UUID, tuple[str, ...]]:
    """For each queued one of `operations`, the ids of those that it waits for. One query, none without a queued one."""
    waiting = {operation.pk for operation in operations if operation.state == OperationState.QUEUED}
    if not waiting:
        return {}
    behind: dict[UUID, list[str]] = {pk: [] for pk in waiting}
    before: dict[tuple[str, str], list[str]] = defaultdict(list)
    rows = OperationTarget.objects.filter(operation__state__in=OPERATION_OPEN).order_by("-held", "id")
    for kind, target_id, pk in rows.values_list("kind", "target_id", "operation_id"):
        ahead = before[kind, target_id]
        if pk in waiting:
            behind[pk] += [other for other in ahead if other not in behind[pk]]
        ahead.append(str(pk))
    return {pk: tuple(others) for pk, others in behind.items()}
