"""RESIZE: another number of workers in one pool. A later resize of the same pool takes over."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import NotFound
from controlplane.operations.models import Operation
from controlplane.operations.selectors import operation_running
from controlplane.operations.services import OnConflict, operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools import selectors
from controlplane.pools.counts import counts_write, fleet_check, generation_check, limits_check, workers_in_words
from controlplane.pools.models import Pool
from controlplane.pools.progress import Progress, scaling_progress
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.targets import POOL, deployment_lock, deployment_locked, look_again, pool_target
from inference.contracts.states import OperationKind


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """was: the size before, once it has begun."""

    deployment_id: int
    pool_id: str
    replicas: int
    was: int | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    """operation: the one that leads towards this size; None when the pool had it already and nothing is under way."""

    pool: Pool
    operation: Operation | None


@transaction.atomic
def pool_resize(
    *,
    pool_id: UUID,
    generation: int,
    replicas: int,
    requested_by: str,
    reason: str = "",
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> Resized:
    """Want `replicas` workers in the pool.

    Asking for the size that the pool has already changes nothing and names no generation as stale: the same command
    twice (a double click, a retry) is answered twice alike.

    Raises:
        NotFound: no such pool.
        Invalid: outside the pool's limits, or more than the whole fleet has devices.
        StaleGeneration: somebody changed the pool since `generation`; `current` is what it is now.
        Conflict: the deployment is being deleted, or another operation has the pool.
    """
    deployment = deployment_locked(pk=selectors.pool_get(pool_id).deployment_id)
    pool = selectors.pool_get(pool_id)
    if replicas == pool.replicas:
        return Resized(pool, operation_running(target_kind=POOL, target_id=str(pool_id)))
    generation_check(pool, generation)
    limits_check(pool, replicas, field="replicas")
    fleet_check(pool, replicas, field="replicas")
    before = pool.replicas
    operation = operation_start(
        kind=OperationKind.RESIZE,
        targets=[pool_target(pool)],
        title=f"Resize {pool.role} of {deployment} from {before} to {replicas}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(deployment_id=deployment.pk, pool_id=str(pool_id), replicas=replicas)),
        reason=reason,
        before=workers_in_words(before),
        after=workers_in_words(replicas),
        preview=preview_of(deployment, counts={str(pool_id): replicas}),
        on_conflict=on_conflict,
    )
    record(
        action="pool.resize",
        target_kind=POOL,
        target_id=pool_id,
        target_name=str(pool),
        before={"replicas": before},
        after={"replicas": replicas, "operation": str(operation.pk), "state": operation.state},
        reason=reason,
    )
    pool.refresh_from_db()
    return Resized(pool, operation)


def _pool(request: Request) -> Pool:
    pool = Pool.objects.select_related("deployment").filter(pk=UUID(request.pool_id)).first()
    if pool is None:
        raise NotFound("pool", request.pool_id)
    return pool


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    pool = _pool(request)
    limits_check(pool, request.replicas, field="replicas")
    before = counts_write(deployment, {pool: request.replicas})
    operation.request = msgspec.to_builtins(msgspec.structs.replace(request, was=before[pool.role]))
    operation.save(update_fields=["request"])
    look_again(deployment)


def _cancel(operation: Operation) -> str:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    pool = _pool(request)
    was = pool.replicas if request.was is None else request.was
    limits_check(pool, was, field="replicas")
    counts_write(deployment, {pool: was})
    look_again(deployment)
    return f"{pool} shall have {workers_in_words(was)} again."


def progress(operation: Operation, look: Look) -> Progress:
    ours = [msgspec.convert(operation.request, Request).pool_id]
    return scaling_progress(
        [pool for pool in look.pools if pool.pool_id in ours],
        look.of_pools(look.workers, ours),
        unmet=look.unmet(ours),
        since=since(operation),
        gone=look.of_pools(look.gone, ours),
    )


WORKFLOW = Workflow(
    OperationKind.RESIZE,
    begin=_begin,
    lock=deployment_lock,
    cancel=_cancel,
    retryable=True,
    supersedes=frozenset({OperationKind.RESIZE}),
)
