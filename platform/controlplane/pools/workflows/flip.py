"""FLIP: one worker of the other role, on its devices.

An engine that can keeps its weights loaded: the worker leaves the routing table, finishes what it has, switches, proves
itself with a token, and is listed again. Others start anew on the same devices. Both pools' sizes follow. A worker that
can't switch goes on as what it was, and the sizes go back (`pools.flipping`).
"""

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
from controlplane.pools.checks.engine import capabilities
from controlplane.pools.counts import limits_check, shape_in_words
from controlplane.pools.flipping import worker_change_over
from controlplane.pools.models import Deployment, Pool, Worker
from controlplane.pools.progress import Progress, worker_progress
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of_flip
from controlplane.pools.workflows.targets import (
    WORKER,
    deployment_lock,
    deployment_locked,
    look_again,
    pool_target,
    split_pools,
    worker_target,
)
from inference.contracts.states import OperationKind, Role, WorkerDesired, WorkerPhase


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """role: the one that it shall have."""

    deployment_id: int
    worker_id: str
    role: Role


@transaction.atomic
def worker_flip(
    *, worker_id: UUID, requested_by: str, reason: str = "", on_conflict: OnConflict = OnConflict.REFUSE
) -> Operation:
    """Give the worker the other role of its deployment.

    Raises:
        NotFound: no such worker.
        Invalid: a pool's limits do not allow it.
        Conflict: it is not ready, its deployment is being deleted or has unified workers, or another operation has it
            or one of the pools.
    """
    deployment = deployment_locked(pk=selectors.worker_get(worker_id).pool.deployment_id)
    worker = selectors.worker_get(worker_id)
    old, new = _pools(deployment, worker)
    _check(worker, old, new)
    live = capabilities(deployment.engine).switches_role
    how = "with its weights loaded" if live else f"by a warm restart: the {deployment.engine} engine can't switch"
    after = {old.role: old.replicas - 1, new.role: new.replicas + 1}
    operation = operation_start(
        kind=OperationKind.FLIP,
        targets=[worker_target(worker), pool_target(old), pool_target(new)],
        title=f"Flip {worker.name} of {deployment} to {new.role}, {how}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(
            Request(deployment_id=deployment.pk, worker_id=str(worker_id), role=Role(new.role))
        ),
        reason=reason,
        before=shape_in_words({old.role: old.replicas, new.role: new.replicas}),
        after=shape_in_words(after),
        preview=preview_of_flip(deployment, worker, new),
        on_conflict=on_conflict,
    )
    record(
        action="worker.flip",
        target_kind=WORKER,
        target_id=worker_id,
        target_name=worker.name,
        before={"role": old.role},
        after={"role": new.role, "operation": str(operation.pk), "state": operation.state},
        reason=reason,
    )
    return operation


def _pools(deployment: Deployment, worker: Worker) -> tuple[Pool, Pool]:
    """The pool of the worker, and the other one."""
    prefill, decode = split_pools(deployment)
    return (prefill, decode) if worker.pool_id == prefill.pk else (decode, prefill)


def _check(worker: Worker, old: Pool, new: Pool) -> None:
    if worker.desired != WorkerDesired.RUN or worker.phase != WorkerPhase.READY:
        leaving = "" if worker.desired == WorkerDesired.RUN else " and not wanted to stay as it is"
        raise Conflict(
            f"{worker.name} is {worker.phase}{leaving}; only a worker that is ready can change its role.",
            code="not_flippable",
        )
    if old.tensor_parallel != new.tensor_parallel:
        raise Conflict(
            f"{worker.name} has {old.tensor_parallel} devices, and a {new.role} worker needs {new.tensor_parallel}.",
            code="not_flippable",
        )
    limits_check(old, old.replicas - 1, field="worker")
    limits_check(new, new.replicas + 1, field="worker")


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    worker = Worker.objects.filter(pk=UUID(request.worker_id)).first()
    if worker is None:
        raise NotFound("worker", request.worker_id)
    old, new = _pools(deployment, worker)
    if old.role == request.role:
        raise Conflict(f"{worker.name} has the role {old.role} already.", code="not_flippable")
    _check(worker, old, new)
    worker_change_over(deployment, worker, new)
    look_again(deployment)


def _cancel(operation: Operation) -> str:
    """Also when it has switched by now: then it switches back."""
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    worker = Worker.objects.filter(pk=UUID(request.worker_id)).first()
    if worker is None:
        return "The worker is gone."
    now, before = _pools(deployment, worker)
    if now.role == request.role:
        worker_change_over(deployment, worker, before)
        look_again(deployment)
    return f"{worker.name} shall be a {before.role} worker again."


def progress(operation: Operation, look: Look) -> Progress:
    request = msgspec.convert(operation.request, Request)
    worker = look.worker(request.worker_id)
    name = operation.targets.all()[0].name
    done = f"{worker.name if worker else name} takes requests as {request.role} worker."
    return worker_progress(worker, name, request.role, since=since(operation), done=done)


WORKFLOW = Workflow(OperationKind.FLIP, begin=_begin, lock=deployment_lock, cancel=_cancel, retryable=True)
