"""FETCH_WEIGHTS: nodes bring a model onto their disks before a worker needs it.

wanted ──> rows of fleet ──> specs of the nodes ──> their reports ──> steps of the operation, one a node
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction

from controlplane.audit.services import record
from controlplane.catalog.checks import revision_checked
from controlplane.catalog.learning import models_learn
from controlplane.catalog.models import Model
from controlplane.catalog.selectors import model_get
from controlplane.catalog.services import MODEL
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.core.locking import locked
from controlplane.fleet.models import Node, NodeWeights
from controlplane.fleet.services import weights_let_go, weights_want
from controlplane.operations.models import Operation
from controlplane.operations.services import (
    OnConflict,
    Standing,
    Target,
    operation_finish,
    operation_report,
    operation_start,
)
from controlplane.operations.workflows import Workflow, register
from inference.contracts.states import (
    FetchState,
    NodeDesired,
    NodePhase,
    OperationKind,
    OperationState,
    StepState,
)

NODES_MAX = 1000


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """had: nodes that were to have the weights before, once it has begun; they keep them when it is cancelled."""

    model_id: int
    revision: str
    node_ids: tuple[UUID, ...]
    had: tuple[UUID, ...] = ()


@transaction.atomic
def weights_fetch(
    name: str,
    node_ids: Sequence[UUID],
    *,
    by: str,
    revision: str | None = None,
    reason: str = "",
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> Operation:
    """Have these nodes fetch the model. revision: None takes the model's own.

    Raises:
        NotFound: there is no such model or node.
        Invalid: no nodes, or too many; or no name of a revision.
        Conflict: a node does not report, or (code "operation_conflict") the model is being fetched already.
    """
    model = model_get(name)
    wanted = tuple(dict.fromkeys(node_ids))
    if not 1 <= len(wanted) <= NODES_MAX:
        raise Invalid(f"Name 1 to {NODES_MAX} nodes, not {len(wanted)}.", field="nodes")
    nodes = _locked(wanted)
    _require_there(wanted, nodes)
    request = Request(
        model_id=model.pk,
        revision=model.revision if revision is None else revision_checked(revision),
        node_ids=wanted,
    )
    where = nodes[0].name if len(nodes) == 1 else f"{len(nodes)} nodes"
    operation = operation_start(
        kind=OperationKind.FETCH_WEIGHTS,
        targets=[Target(MODEL, str(model.pk), model.name)],
        title=f"Fetch {model.name} to {where}",
        requested_by=by,
        request=msgspec.to_builtins(request),
        reason=reason,
        after=f"weights on {where}",
        on_conflict=on_conflict,
    )
    record(
        action="model.fetch",
        target_kind=MODEL,
        target_id=model.pk,
        target_name=model.name,
        after={
            "nodes": [node.name for node in nodes],
            "revision": request.revision,
            "operation": str(operation.pk),
        },
        reason=reason,
    )
    return operation


def _locked(node_ids: Sequence[UUID]) -> list[Node]:
    """By name, as everywhere, so that two who want several never wait for each other."""
    return list(locked(Node.objects).filter(pk__in=node_ids))


def _require_there(wanted: Sequence[UUID], nodes: Sequence[Node]) -> None:
    found = {node.pk for node in nodes}
    for node_id in wanted:
        if node_id not in found:
            raise NotFound("node", str(node_id))
    for node in nodes:
        if node.desired == NodeDesired.RETIRED or node.phase != NodePhase.READY:
            raise Conflict(f"{node.name} does not report, so it can fetch nothing.", code="node_away")


def _request(operation: Operation) -> Request:
    return msgspec.convert(operation.request, Request)


def _model(request: Request) -> Model:
    model = Model.objects.filter(pk=request.model_id).first()
    if model is None:
        raise NotFound(MODEL, str(request.model_id))
    return model


def _lock(operation: Operation) -> None:
    _locked(_request(operation).node_ids)


def _begin(operation: Operation) -> None:
    request = _request(operation)
    model = _model(request)
    had = NodeWeights.objects.filter(
        node__in=request.node_ids, path=model.path, revision=request.revision, wanted=True
    ).values_list("node_id", flat=True)
    operation.request = msgspec.to_builtins(msgspec.structs.replace(request, had=tuple(had)))
    operation.save(update_fields=["request"])
    weights_want(request.node_ids, model.path, request.revision)


def _cancel(operation: Operation) -> str:
    request = _request(operation)
    model = _model(request)
    there = NodeWeights.objects.filter(
        node__in=request.node_ids, path=model.path, revision=request.revision, state=FetchState.PRESENT
    )
    kept = {*request.had, *there.values_list("node_id", flat=True)}
    weights_let_go(model.path, request.revision, node_ids=[each for each in request.node_ids if each not in kept])
    return "Nothing more is fetched; what has come stays on the nodes' disks."


def _advance(operation: Operation) -> None:
    """Level-triggered: looks at what the nodes report."""
    request = _request(operation)
    model = Model.objects.filter(pk=request.model_id).first()
    if model is None:
        operation_finish(operation, OperationState.FAILED, "The model is not in the catalogue any more.")
        return
    rows = NodeWeights.objects.filter(node__in=request.node_ids, path=model.path, revision=request.revision)
    on_node = {row.node_id: row for row in rows}
    standings = [_standing(node, on_node.get(node.pk)) for node in Node.objects.filter(pk__in=request.node_ids)]
    done = sum(_share(on_node.get(node_id)) for node_id in request.node_ids)
    operation_report(operation, standings, done / len(request.node_ids))
    if any(standing.state == StepState.RUNNING for standing in standings):
        if operation.running_s > settings.FETCH_DEADLINE_S:
            limit = f"Not done after {settings.FETCH_DEADLINE_S:g} s. What was asked for stays wanted."
            operation_finish(operation, OperationState.FAILED, limit)
        return
    transaction.on_commit(models_learn, robust=True)  # models are locked before nodes
    failed = [standing for standing in standings if standing.state == StepState.FAILED]
    if not failed:
        operation_finish(operation, OperationState.SUCCEEDED, f"{model.name} is on {_nodes(len(standings))}.")
        return
    outcome = f"{len(failed)} of {_nodes(len(standings))} did not get it: {failed[0].text}: {failed[0].cause}"
    operation_finish(operation, OperationState.FAILED, outcome)


def _standing(node: Node, row: NodeWeights | None) -> Standing:
    """How one node stands. What it reported before it took its newest spec says nothing of this fetch."""
    key = str(node.pk)
    if node.desired == NodeDesired.RETIRED:
        return Standing(key, node.name, StepState.FAILED, "it was retired")
    if row is not None and row.state == FetchState.PRESENT:
        return Standing(key, f"{node.name}: {_amount(row.size_bytes)}", StepState.DONE)
    heard = node.observed_generation >= node.generation
    if row is not None and row.state == FetchState.FAILED and heard:
        return Standing(key, node.name, StepState.FAILED, row.reason or "it does not say why")
    if node.phase != NodePhase.READY:
        return Standing(key, f"{node.name}: silent")
    if row is None or row.state != FetchState.FETCHING:
        return Standing(key, f"{node.name}: waiting")
    return Standing(key, f"{node.name}: {_amount(row.fetched_bytes)} of {_amount(row.size_bytes)}")


def _share(row: NodeWeights | None) -> float:
    """How much of it is there, 0..1; what is not known counts as nothing yet."""
    if row is None:
        return 0.0
    if row.state == FetchState.PRESENT:
        return 1.0
    return min(1.0, row.fetched_bytes / row.size_bytes) if row.fetched_bytes and row.size_bytes else 0.0


def _amount(size: int | None) -> str:
    """Bytes by powers of ten, as disks are sold."""
    return "?" if size is None else f"{size / 1e9:.2f} GB"


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


WORKFLOW = Workflow(
    kind=OperationKind.FETCH_WEIGHTS,
    begin=_begin,
    lock=_lock,
    cancel=_cancel,
    advance=_advance,
    retryable=True,
    expires=False,
)


def workflows_register() -> None:
    register(WORKFLOW)
