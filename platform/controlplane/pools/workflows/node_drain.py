"""DRAIN_NODE: everything that runs on a node moves elsewhere, or finishes what it has. Done when no worker is left."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import msgspec
from django.db import transaction

from controlplane.core.errors import Conflict
from controlplane.core.locking import locked
from controlplane.fleet.models import Node
from controlplane.fleet.services import node_desire
from controlplane.fleet.workflows import node_lock, node_locked, node_of, node_target
from controlplane.operations.models import Operation
from controlplane.operations.services import (
    OnConflict,
    Standing,
    operation_finish,
    operation_report,
    operation_start,
)
from controlplane.operations.workflows import Workflow
from controlplane.pools.announce import reconcile_request
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.news import worker_news
from controlplane.pools.planning.preview import preview
from controlplane.pools.seeing import snapshot, worker_seen
from inference.contracts.states import NodeDesired, OperationKind, OperationState, Role
from inference.contracts.views.operations import OperationPreview


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """was, was_reason: what was wanted of the node before, and why. workers: how many it had when the drain began."""

    node_id: str
    reason: str
    was: NodeDesired = NodeDesired.ACTIVE
    was_reason: str = ""
    workers: int = 0


@transaction.atomic
def node_drain(
    node_id: UUID, *, requested_by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """
    Raises:
        NotFound: no such node.
        Conflict: it was retired, or another operation has it.
    """
    node = node_locked(node_id)
    workers = Worker.objects.filter(node=node).count()
    return operation_start(
        kind=OperationKind.DRAIN_NODE,
        targets=[node_target(node)],
        title=f"Drain {node.name}",
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(node_id=str(node.pk), reason=reason)),
        reason=reason,
        before=f"{node.desired}, {workers} workers",
        after="no workers",
        preview=drain_preview(node),
        on_conflict=on_conflict,
    )


def drain_preview(node: Node) -> OperationPreview:
    """What moves where, one deployment after the other; each is worked out as if it were alone."""
    parts = [(deployment, _course(deployment, node)) for deployment in deployments_on(node)]
    warnings = [f"{deployment}: {warning}" for deployment, part in parts for warning in part.warnings]
    if len(parts) > 1:
        warnings.append(f"{len(parts)} deployments look for devices at the same time; they may have to share.")
    return OperationPreview(
        start=tuple(text for _, part in parts for text in part.start),
        stop=tuple(text for _, part in parts for text in part.stop),
        flip=tuple(text for _, part in parts for text in part.flip),
        moments=parts[0][1].moments if len(parts) == 1 else (),
        devices_max=sum(part.devices_max for _, part in parts),
        budget=sum(part.budget for _, part in parts),
        warnings=tuple(warnings),
        refusals=tuple(f"{deployment}: {refusal}" for deployment, part in parts for refusal in part.refusals),
    )


def deployments_on(node: Node) -> list[Deployment]:
    return list(Deployment.objects.filter(pools__workers__node=node).distinct())


def _course(deployment: Deployment, node: Node) -> OperationPreview:
    now = snapshot(deployment)
    drained = replace(now.nodes[node.name], desired=NodeDesired.DRAINING)
    return preview(replace(now, nodes={**now.nodes, node.name: drained}))


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    node = locked(Node.objects).filter(pk=node_of(operation)).first()
    if node is None or node.desired == NodeDesired.RETIRED:
        raise Conflict("The node was retired meanwhile, so there is nothing to drain.", code="node_retired")
    was = NodeDesired.ACTIVE if node.desired == NodeDesired.DRAINING else NodeDesired(node.desired)
    request = msgspec.structs.replace(
        request,
        was=was,
        was_reason="" if was == NodeDesired.ACTIVE else node.cordon_reason,
        workers=Worker.objects.filter(node=node).count(),
    )
    operation.request = msgspec.to_builtins(request)
    operation.save(update_fields=["request"])
    node_desire(node.pk, NodeDesired.DRAINING, reason=request.reason)
    reconcile_request(deployment.pk for deployment in deployments_on(node))
    _advance(operation)


def _advance(operation: Operation) -> None:
    """Level-triggered: how many are left is read from the rows."""
    request = msgspec.convert(operation.request, Request)
    left = Worker.objects.filter(node=node_of(operation)).select_related("node", "pool__deployment", "revision")
    standings = [
        Standing(
            f"leave:{worker.pk}",
            f"{worker.pool.deployment}: {worker_news(worker_seen(worker), Role(worker.pool.role))}",
            cause=next(iter(worker.pool.refusals.splitlines()), ""),
        )
        for worker in left
    ]
    operation_report(operation, standings, 1 - len(standings) / max(request.workers, len(standings), 1))
    if not standings:
        operation_finish(operation, OperationState.SUCCEEDED, "No worker is left. It is given none until uncordoned.")


def _cancel(operation: Operation) -> str:
    request = msgspec.convert(operation.request, Request)
    node = node_desire(node_of(operation), request.was, reason=request.was_reason)
    reconcile_request(deployment.pk for deployment in deployments_on(node))
    return f"{node.name} is {request.was} again; what has not left may stay."


WORKFLOW = Workflow(
    OperationKind.DRAIN_NODE, begin=_begin, lock=node_lock, cancel=_cancel, advance=_advance, retryable=True
)
