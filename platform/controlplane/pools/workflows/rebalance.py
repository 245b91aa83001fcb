"""REBALANCE: prefill workers for decode workers or the other way round, on the devices that the deployment has (F22).

Workers change over with their weights loaded where the engine can; else one is released before another starts.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation
from controlplane.operations.selectors import operations_holding
from controlplane.operations.services import OnConflict, operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools.counts import counts_write, generation_check, limits_check, shape_in_words
from controlplane.pools.models import Deployment, Pool
from controlplane.pools.progress import Progress, scaling_progress
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.targets import (
    DEPLOYMENT,
    POOL,
    deployment_lock,
    deployment_locked,
    look_again,
    pool_target,
    split_pools,
)
from inference.contracts.states import OperationKind, Role


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """budget: most devices that the deployment may hold at any moment of it. was_prefill, was_decode: the sizes before,
    once it has begun."""

    deployment_id: int
    prefill: int
    decode: int
    budget: int
    was_prefill: int | None = None
    was_decode: int | None = None


@transaction.atomic
def deployment_rebalance(
    *,
    name: str,
    prefill: int,
    decode: int,
    generations: Mapping[Role, int],
    requested_by: str,
    reason: str = "",
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> Operation:
    """Want other sizes of both pools, without one device more. generations: of both pools, as the caller saw them.

    Raises:
        NotFound: no such deployment.
        Invalid: outside a pool's limits, more devices than before, or nothing that changes.
        StaleGeneration: somebody changed a pool since.
        Conflict: it is being deleted, has unified workers, or another operation has one of the pools.
    """
    deployment = deployment_locked(name=name)
    pools = split_pools(deployment)
    wanted = {Role.PREFILL: prefill, Role.DECODE: decode}
    for pool in pools:
        generation_check(pool, generations[Role(pool.role)])
        limits_check(pool, wanted[Role(pool.role)], field=pool.role)
    budget = devices_of({pool: pool.replicas for pool in pools})
    _budget_check(pools, wanted, budget)
    before = {pool.role: pool.replicas for pool in pools}
    operation = operation_start(
        kind=OperationKind.REBALANCE,
        targets=[pool_target(pool) for pool in pools],
        title=f"Rebalance {deployment} from {shape_in_words(before)} to {shape_in_words(wanted)}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(
            Request(deployment_id=deployment.pk, prefill=prefill, decode=decode, budget=budget)
        ),
        reason=reason,
        before=shape_in_words(before),
        after=shape_in_words(wanted),
        preview=preview_of(deployment, counts={str(pool.pk): wanted[Role(pool.role)] for pool in pools}, budget=budget),
        on_conflict=on_conflict,
    )
    record(
        action="deployment.rebalance",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        before=before,
        after={**wanted, "operation": str(operation.pk), "state": operation.state},
        reason=reason,
    )
    return operation


def devices_of(counts: Mapping[Pool, int]) -> int:
    return sum(replicas * pool.tensor_parallel for pool, replicas in counts.items())


def budget_now(deployment: Deployment) -> int | None:
    """What a rebalance that runs allows the deployment to hold; None while none runs."""
    pools = [str(pool_id) for pool_id in Pool.objects.filter(deployment=deployment).values_list("pk", flat=True)]
    running = operations_holding({POOL: pools}).filter(kind=OperationKind.REBALANCE).first()
    return None if running is None else msgspec.convert(running.request, Request).budget


def _budget_check(pools: tuple[Pool, Pool], wanted: Mapping[Role, int], budget: int) -> None:
    if all(pool.replicas == wanted[Role(pool.role)] for pool in pools):
        raise Invalid(f"{pools[0].deployment} has {shape_in_words(wanted)} already.", code="no_change")
    needed = devices_of({pool: wanted[Role(pool.role)] for pool in pools})
    if needed > budget:
        raise Invalid(
            f"A rebalance keeps to the {budget} devices that {pools[0].deployment} has, and "
            f"{shape_in_words(wanted)} need {needed}. Resize a pool to use more.",
            code="over_budget",
            field=Role.DECODE,
        )


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    prefill, decode = split_pools(deployment)
    limits_check(prefill, request.prefill, field=Role.PREFILL)
    limits_check(decode, request.decode, field=Role.DECODE)
    if devices_of({prefill: request.prefill, decode: request.decode}) > devices_of(
        {prefill: prefill.replicas, decode: decode.replicas}
    ):
        raise Conflict(f"{deployment} has become smaller meanwhile: this would need more devices than it has now.")
    was = counts_write(deployment, {prefill: request.prefill, decode: request.decode})
    begun = msgspec.structs.replace(request, was_prefill=was[Role.PREFILL], was_decode=was[Role.DECODE])
    operation.request = msgspec.to_builtins(begun)
    operation.save(update_fields=["request"])
    look_again(deployment)


def _cancel(operation: Operation) -> str:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    prefill, decode = split_pools(deployment)
    was = {
        prefill: prefill.replicas if request.was_prefill is None else request.was_prefill,
        decode: decode.replicas if request.was_decode is None else request.was_decode,
    }
    for pool, replicas in was.items():
        limits_check(pool, replicas, field=pool.role)
    counts_write(deployment, was)
    look_again(deployment)
    return f"{deployment} shall have {shape_in_words({pool.role: replicas for pool, replicas in was.items()})} again."


def progress(operation: Operation, look: Look) -> Progress:
    return scaling_progress(
        look.pools,
        look.workers,
        unmet=look.unmet(list(look.roles)),
        since=since(operation),
        gone=look.gone,
    )


WORKFLOW = Workflow(
    OperationKind.REBALANCE,
    begin=_begin,
    lock=deployment_lock,
    cancel=_cancel,
    retryable=True,
    supersedes=frozenset({OperationKind.REBALANCE}),
)
