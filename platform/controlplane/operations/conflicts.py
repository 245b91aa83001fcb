"""Which open operations stand in each other's way: those that share a target, in the order of their requests.

Queued operations count too. Otherwise a stream of new ones could keep a queued one waiting for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Min, Q, QuerySet

from controlplane.core.errors import Conflict
from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.workflows import Target, workflow_of
from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState


@dataclass(frozen=True, slots=True)
class Rivals:
    """What a new operation finds on its targets. gives_way: superseded by it. in_the_way: it conflicts with these."""

    gives_way: tuple[Operation, ...]
    in_the_way: tuple[Operation, ...]


def in_order(operations: QuerySet[Operation]) -> QuerySet[Operation]:
    """In the order in which they were asked for, with their targets. By row ids: clocks may go back."""
    return operations.annotate(place=Min("targets__pk")).order_by("place").prefetch_related("targets")


def open_on(targets: Iterable[Target]) -> list[Operation]:
    """The open operations that have one of these targets."""
    wanted = reduce(or_, (Q(kind=target.kind, target_id=target.id) for target in targets))
    on_them = OperationTarget.objects.filter(wanted).values("operation")
    return list(in_order(Operation.objects.filter(pk__in=on_them, state__in=OPERATION_OPEN)))


def rivals(kind: OperationKind, targets: Sequence[Target], *, supersede_all: bool) -> Rivals:
    """Whom a new operation would meet on its targets now."""
    supersedes, ours = workflow_of(kind).supersedes, keys(targets)
    found = open_on(targets)
    gives_way = [each for each in found if supersede_all or (each.kind in supersedes and keys_of(each) == ours)]
    others = [each for each in found if each not in gives_way]
    if any(each.state == OperationState.RUNNING for each in gives_way):
        # It takes the place of a running one; whoever waits behind that waits behind this.
        others = [each for each in others if each.state == OperationState.RUNNING]
    return Rivals(tuple(gives_way), tuple(others))


def ahead_of(operation: Operation) -> list[Operation]:
    """What a queued operation waits for: running ones on its targets, and those queued there before it."""
    found = open_on(targets_of(operation))
    own = next((number for number, each in enumerate(found) if each.pk == operation.pk), len(found))
    return [
        each
        for number, each in enumerate(found)
        if each.pk != operation.pk and (each.state == OperationState.RUNNING or number < own)
    ]


def targets_of(operation: Operation) -> tuple[Target, ...]:
    return tuple(Target(each.kind, each.target_id, each.name) for each in operation.targets.all())


def keys(targets: Iterable[Target]) -> frozenset[tuple[str, str]]:
    return frozenset((target.kind, target.id) for target in targets)


def keys_of(operation: Operation) -> frozenset[tuple[str, str]]:
    return keys(targets_of(operation))


def conflict(first: Operation, targets: Iterable[Target]) -> Conflict:
    """The refusal of an operation on `targets` that has `first` in its way; it names which, and what can be done."""
    shared = keys(targets)
    name = next((each.name for each in first.targets.all() if (each.kind, each.target_id) in shared), "it")
    place = "runs" if first.state == OperationState.RUNNING else "is queued"
    return Conflict(
        f'"{first.title}" (operation {first.pk}) {place} on {name}. Wait until it has ended, cancel it, or ask '
        "to be queued behind it.",
        code="operation_conflict",
        current={"operation": str(first.pk), "title": first.title, "state": first.state},
    )
