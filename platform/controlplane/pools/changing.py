"""Changes that take effect at once and need no operation: how requests are served and judged, how a pool is placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.pools import selectors
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.checks.deployment import local_prefill_check, routing_check, slo_check
from controlplane.pools.checks.pool import labels_check, limits_of_a_pool_check, strategy_check
from controlplane.pools.counts import generation_check
from controlplane.pools.models import Deployment, Pool
from controlplane.pools.rollout.policy import policy_check
from controlplane.pools.routing import routing_table_publish
from controlplane.pools.workflows.targets import deployment_locked
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.routing_policy import RoutingPolicy


@transaction.atomic
def deployment_change(
    *,
    name: str,
    local_prefill_tokens: int | None = None,
    slo_ttft_s: float | msgspec.UnsetType | None = msgspec.UNSET,
    slo_tpot_s: float | msgspec.UnsetType | None = msgspec.UNSET,
    policy: RolloutPolicy | None = None,
    routing: RoutingPolicy | None = None,
    reason: str = "",
) -> Deployment:
    """Change what is not UNSET (or None, where that means nothing). A policy counts for a roll-out under way, too.

    Raises:
        NotFound: no such deployment.
        Invalid: a value can't be right.
        Conflict: it is being deleted.
    """
    deployment = deployment_locked(name=name)
    local_prefill_check(local_prefill_tokens)
    promised = {"slo_ttft_s": slo_ttft_s, "slo_tpot_s": slo_tpot_s}
    slo_check(**{field: value for field, value in promised.items() if value is not msgspec.UNSET})
    wanted = {field: value for field, value in promised.items() if value is not msgspec.UNSET}
    if local_prefill_tokens is not None:
        wanted["local_prefill_tokens"] = local_prefill_tokens
    if policy is not None:
        policy_check(policy)
        wanted["rollout_policy"] = msgspec.to_builtins(policy)
    if routing is not None:
        routing_check(routing)
        if routing != deployment.routing:
            wanted["routing_policy"] = msgspec.to_builtins(routing)
    if _write(deployment, wanted, "deployment.change", reason):
        routing_table_publish()
        deployments_announce([deployment.pk])
    return deployment


@transaction.atomic
def pool_change(
    *,
    pool_id: UUID,
    generation: int,
    min_replicas: int | None = None,
    max_replicas: int | None = None,
    labels: Sequence[str] | None = None,
    strategy: str | None = None,
    reason: str = "",
) -> Pool | None:
    """Change the pool's limits and where its workers may be placed; what is None stays. Workers that run stay where
    they are: labels and strategy count for those to come. None: it is like that already.

    Raises:
        NotFound: no such pool.
        Invalid: a value can't be right, or the limits leave out the size.
        StaleGeneration: somebody changed the pool since.
        Conflict: its deployment is being deleted.
    """
    deployment = deployment_locked(pk=selectors.pool_get(pool_id).deployment_id)
    pool = selectors.pool_get(pool_id)
    wanted: dict[str, Any] = {
        "min_replicas": min_replicas,
        "max_replicas": max_replicas,
        "labels": None if labels is None else list(labels),
        "strategy": strategy,
    }
    wanted = {field: value for field, value in wanted.items() if value is not None}
    if all(getattr(pool, field) == value for field, value in wanted.items()):
        return None
    generation_check(pool, generation)
    labels_check(wanted.get("labels", ()))
    strategy_check(wanted.get("strategy", pool.strategy))
    least, most = wanted.get("min_replicas", pool.min_replicas), wanted.get("max_replicas", pool.max_replicas)
    limits_of_a_pool_check(least=least, most=most, replicas=pool.replicas)
    wanted["generation"] = pool.generation + 1
    _write(pool, wanted, "pool.change", reason)
    reconcile_request([deployment.pk])
    deployments_announce([deployment.pk])
    return pool


def _write(row: Deployment | Pool, wanted: dict[str, Any], action: str, reason: str) -> bool:
    """Save what differs, with its entry in the audit trail; whether anything did."""
    before = {field: getattr(row, field) for field, value in wanted.items() if getattr(row, field) != value}
    if not before:
        return False
    for field in before:
        setattr(row, field, wanted[field])
    row.save(update_fields=list(before))
    record(
        action=action,
        target_kind=action.partition(".")[0],
        target_id=row.pk,
        target_name=str(row),
        before=before,
        after={field: wanted[field] for field in before},
        reason=reason,
    )
    return True
