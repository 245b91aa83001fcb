"""What operators can ask of nodes that concerns no worker: cordon, uncordon, and a measurement of the network.

Draining and retiring, which move workers, are in the app that owns those.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from uuid import UUID

from django.db import transaction

from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.locking import locked
from controlplane.fleet.desired import node_desire
from controlplane.fleet.links import PAIRS_MAX, links_advance, links_measure
from controlplane.fleet.models import Link, LinkMeasurement, Node
from controlplane.fleet.selectors import node_get
from controlplane.operations.models import Operation
from controlplane.operations.services import (
    OnConflict,
    Target,
    operation_finish,
    operation_progress,
    operation_start,
)
from controlplane.operations.workflows import Workflow, register
from inference.contracts.states import NodeDesired, NodePhase, OperationKind, OperationState

#: There is one network, and one measurement of it at a time.
NETWORK = Target("network", "nodes", "network")


def node_target(node: Node) -> Target:
    return Target("node", str(node.pk), node.name)


def node_of(operation: Operation) -> UUID:
    return UUID(operation.request["node_id"])


def node_lock(operation: Operation) -> None:
    """`Workflow.lock` of every kind that concerns one node."""
    locked(Node.objects).filter(pk=node_of(operation)).first()


def node_locked(node_id: UUID) -> Node:
    """The node, locked: before an operation on it starts, which may end another one there.

    Raises:
        NotFound: there is no such node.
    """
    locked(Node.objects).filter(pk=node_id).first()
    return node_get(node_id)


@transaction.atomic
def node_operation_start(
    kind: OperationKind, node_id: UUID, *, by: str, title: str, after: str, reason: str, on_conflict: OnConflict
) -> Operation:
    """Begin an operation on one node. title: with "{node}" for its name.

    Raises:
        NotFound: there is no such node.
        ControlError: whatever `operation_start` refuses with.
    """
    node = node_locked(node_id)
    return operation_start(
        kind=kind,
        targets=[node_target(node)],
        title=title.format(node=node.name),
        requested_by=by,
        request={"node_id": str(node.pk), "reason": reason},
        reason=reason,
        before=node.desired,
        after=after,
        on_conflict=on_conflict,
    )


def node_cordon(node_id: UUID, *, by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE) -> Operation:
    """Give the node nothing new; what it runs stays."""
    return node_operation_start(
        OperationKind.CORDON_NODE,
        node_id,
        by=by,
        title="Cordon {node}",
        after=NodeDesired.CORDONED,
        reason=reason,
        on_conflict=on_conflict,
    )


def node_uncordon(
    node_id: UUID, *, by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """Give the node workers again. It ends a drain that runs, too."""
    return node_operation_start(
        OperationKind.UNCORDON_NODE,
        node_id,
        by=by,
        title="Uncordon {node}",
        after=NodeDesired.ACTIVE,
        reason=reason,
        on_conflict=on_conflict,
    )


@transaction.atomic
def network_measure(
    node_ids: Sequence[UUID], *, by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """Measure the network between these nodes, in both directions.

    Raises:
        NotFound: one of them is no node.
        Invalid: too few or too many.
        Conflict: one of them does not report, or another measurement runs.
    """
    nodes = [node_get(node_id) for node_id in dict.fromkeys(node_ids)]
    if len(nodes) < 2:
        raise Invalid("A network has two nodes at least.", field="nodes")
    pairs = len(nodes) * (len(nodes) - 1)
    if pairs > PAIRS_MAX:
        raise Invalid(f"{len(nodes)} nodes are too many at once: {pairs} pairs, {PAIRS_MAX} at most.", field="nodes")
    for node in nodes:
        if node.phase != NodePhase.READY or node.desired == NodeDesired.RETIRED:
            raise Conflict(f"{node.name} does not report, so nothing can be measured there.", code="node_away")
    return operation_start(
        kind=OperationKind.MEASURE_NETWORK,
        targets=[NETWORK],
        title=f"Measure the network between {len(nodes)} nodes",
        requested_by=by,
        request={"node_ids": [str(node.pk) for node in nodes]},
        reason=reason,
        after=f"{pairs} pairs measured",
        on_conflict=on_conflict,
    )


def _cordon(operation: Operation) -> None:
    node = node_desire(node_of(operation), NodeDesired.CORDONED, reason=operation.request["reason"])
    operation_finish(operation, OperationState.SUCCEEDED, f"{node.name} is given nothing new.")


def _uncordon(operation: Operation) -> None:
    node = node_desire(node_of(operation), NodeDesired.ACTIVE, reason=operation.request["reason"])
    operation_finish(operation, OperationState.SUCCEEDED, f"{node.name} may be given workers again.")


def _pairs(operation: Operation) -> list[tuple[UUID, UUID]]:
    return list(permutations([UUID(node_id) for node_id in operation.request["node_ids"]], 2))


def _measure(operation: Operation) -> None:
    links_measure(_pairs(operation), now=clock.now())


def _measure_advance(operation: Operation) -> None:
    """Level-triggered: what is not being measured any more has a result."""
    pairs = set(_pairs(operation))
    ends = {node_id for pair in pairs for node_id in pair}
    open_rows = LinkMeasurement.objects.filter(source__in=ends, target__in=ends).values_list("source_id", "target_id")
    waiting = pairs & set(open_rows)
    operation_progress(operation, 1 - len(waiting) / len(pairs))
    if waiting:
        return
    links = Link.objects.filter(source__in=ends, target__in=ends).select_related("source", "target")
    failed = [link for link in links if (link.source_id, link.target_id) in pairs and link.error]
    if not failed:
        operation_finish(operation, OperationState.SUCCEEDED, f"{len(pairs)} pairs measured.")
        return
    first = failed[0]
    outcome = f"{len(failed)} of {len(pairs)} pairs gave nothing; {first.source} to {first.target}: {first.error}"
    operation_finish(operation, OperationState.FAILED, outcome)


def _measure_cancel(operation: Operation) -> str:
    pairs = set(_pairs(operation))
    waiting = [
        row.pk
        for row in LinkMeasurement.objects.filter(started_at__isnull=True)
        if (row.source_id, row.target_id) in pairs
    ]
    LinkMeasurement.objects.filter(pk__in=waiting).delete()
    links_advance(now=clock.now())
    return "What was measured until then is kept."


_KINDS = (
    Workflow(
        kind=OperationKind.CORDON_NODE,
        begin=_cordon,
        lock=node_lock,
        supersedes=frozenset({OperationKind.DRAIN_NODE}),
    ),
    Workflow(
        kind=OperationKind.UNCORDON_NODE,
        begin=_uncordon,
        lock=node_lock,
        supersedes=frozenset({OperationKind.DRAIN_NODE}),
    ),
    Workflow(
        kind=OperationKind.MEASURE_NETWORK,
        begin=_measure,
        cancel=_measure_cancel,
        advance=_measure_advance,
        retryable=True,
    ),
)


def workflows_register() -> None:
    for workflow in _KINDS:
        register(workflow)
