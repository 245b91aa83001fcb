"""RETIRE_NODE: a node is no longer ours. What it ran counts as gone, whether or not it can be asked to stop."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from controlplane.core.errors import Conflict
from controlplane.fleet.models import Node
from controlplane.fleet.services import node_retire
from controlplane.fleet.workflows import node_lock, node_locked, node_of, node_target
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_finish, operation_progress, operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools.announce import reconcile_request
from controlplane.pools.models import Worker
from controlplane.pools.node_spec import node_specs_renew
from controlplane.pools.routing import routing_table_publish
from controlplane.pools.workflows.node_drain import deployments_on
from inference.contracts.states import NodeDesired, NodePhase, OperationKind, OperationState
from inference.contracts.views.operations import OperationPreview


@transaction.atomic
def node_retire_start(
    node_id: UUID, *, requested_by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """
    Raises:
        NotFound: no such node.
        Conflict: it was retired before, or another operation has it.
    """
    node = node_locked(node_id)
    if node.desired == NodeDesired.RETIRED:
        raise Conflict(f"{node.name} was retired before.", code="node_retired")
    return operation_start(
        kind=OperationKind.RETIRE_NODE,
        targets=[node_target(node)],
        title=f"Retire {node.name}",
        requested_by=requested_by,
        request={"node_id": str(node.pk), "reason": reason},
        reason=reason,
        before=node.desired,
        after=NodeDesired.RETIRED,
        preview=_preview(node),
        on_conflict=on_conflict,
    )


def _preview(node: Node) -> OperationPreview:
    workers = list(Worker.objects.filter(node=node).select_related("pool__deployment"))
    warnings = []
    if workers and node.phase == NodePhase.READY:
        warnings.append(
            f"{node.name} runs {len(workers)} workers, whose answers are cut off. Drain it first to let them finish."
        )
    elif workers:
        warnings.append(f"{node.name} is silent. If it runs on, end its agent there: nobody here can do it any more.")
    return OperationPreview(
        stop=tuple(f"{worker.name} of {worker.pool.deployment}" for worker in workers), warnings=tuple(warnings)
    )


def _begin(operation: Operation) -> None:
    node = node_retire(node_of(operation), reason=operation.request["reason"])
    # Routers first. Then the node is told to run nothing, in case it is heard so long; else it learns it by its hello.
    routing_table_publish()
    node_specs_renew([node.pk])
    reconcile_request(deployment.pk for deployment in deployments_on(node))
    _advance(operation)


def _advance(operation: Operation) -> None:
    """The plan of each deployment lets go of what is on a retired node."""
    left = Worker.objects.filter(node=node_of(operation)).count()
    if left:
        operation_progress(operation, 0.5)
        return
    operation_finish(operation, OperationState.SUCCEEDED, "It is no longer ours: credentials void, devices let go.")


WORKFLOW = Workflow(
    OperationKind.RETIRE_NODE,
    begin=_begin,
    lock=node_lock,
    advance=_advance,
    supersedes=frozenset({OperationKind.DRAIN_NODE, OperationKind.CORDON_NODE, OperationKind.UNCORDON_NODE}),
)
