"""RESTART_WORKER: one worker starts again. One that failed, or waits to be started again, does so at once; any other
first finishes what it has."""

from __future__ import annotations

from uuid import UUID

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import Conflict, NotFound
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools import selectors
from controlplane.pools.models import Worker
from controlplane.pools.node_spec import node_specs_renew, nodes_lock
from controlplane.pools.planning.preview import preview_of_restart
from controlplane.pools.progress import Progress, worker_progress
from controlplane.pools.routing import routing_table_publish
from controlplane.pools.seeing import own_snapshot
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.targets import WORKER, deployment_lock, deployment_locked, look_again, worker_target
from inference.contracts.states import OperationKind, OperationState, WorkerDesired, WorkerPhase

#: Nothing runs, so nothing is to be finished.
_DOWN = frozenset({WorkerPhase.FAILED, WorkerPhase.BACKOFF})


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """node_generation: of the spec by which its node learns of it, once it has begun."""

    deployment_id: int
    worker_id: str
    node_generation: int | None = None


@transaction.atomic
def worker_restart(
    *, worker_id: UUID, requested_by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """Have the worker start again, with a clean record.

    Raises:
        NotFound: no such worker.
        Conflict: it is on its way out or out of sight, or another operation has it.
    """
    deployment = deployment_locked(pk=selectors.worker_get(worker_id).pool.deployment_id)
    worker = selectors.worker_get(worker_id)
    _check(worker)
    operation = operation_start(
        kind=OperationKind.RESTART_WORKER,
        targets=[worker_target(worker)],
        title=f"Restart {worker.name} of {deployment}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(deployment_id=deployment.pk, worker_id=str(worker_id))),
        reason=reason,
        before=worker.phase,
        after="ready",
        preview=preview_of_restart(own_snapshot(deployment), str(worker_id), drains=worker.phase not in _DOWN),
        on_conflict=on_conflict,
    )
    record(
        action="worker.restart",
        target_kind=WORKER,
        target_id=worker_id,
        target_name=worker.name,
        before={"phase": worker.phase},
        after={"operation": str(operation.pk), "state": operation.state},
        reason=reason,
    )
    return operation


def _check(worker: Worker) -> None:
    if worker.desired != WorkerDesired.RUN and not worker.renewing:
        raise Conflict(f"{worker.name} is on its way out and is not started again.", code="not_restartable")
    if worker.phase == WorkerPhase.UNKNOWN:
        raise Conflict(f"{worker.name} is out of sight: its node is silent.", code="not_restartable")


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    worker = Worker.objects.select_related("node").filter(pk=UUID(request.worker_id)).first()
    if worker is None:
        raise NotFound("worker", request.worker_id)
    (node,) = nodes_lock([worker.node_id])
    worker.refresh_from_db()
    _check(worker)
    if worker.phase in _DOWN:
        worker.restart += 1
    else:
        worker.renewing, worker.desired = True, WorkerDesired.DRAIN
    worker.save(update_fields=["restart", "renewing", "desired"])
    routing_table_publish()
    node_specs_renew([node.pk])
    operation.request = msgspec.to_builtins(msgspec.structs.replace(request, node_generation=node.generation + 1))
    operation.save(update_fields=["request"])
    look_again(deployment)


def progress(operation: Operation, look: Look) -> Progress:
    """What was seen before its node took the order says nothing yet."""
    request = msgspec.convert(operation.request, Request)
    name = operation.targets.all()[0].name
    row = Worker.objects.select_related("node").filter(pk=UUID(request.worker_id)).first()
    if row is not None and (row.renewing or row.node.observed_generation < (request.node_generation or 0)):
        return Progress(0.0)
    seen = look.worker(request.worker_id)
    role = look.roles[seen.pool_id] if seen is not None else None
    if role is None:
        return Progress(0.0, (), OperationState.FAILED, f"{name} is gone.")
    return worker_progress(seen, name, role, since=since(operation), done=f"{name} is ready.")


WORKFLOW = Workflow(
    OperationKind.RESTART_WORKER,
    begin=_begin,
    lock=deployment_lock,
    retryable=True,
    supersedes=frozenset({OperationKind.RESTART_WORKER}),
)
