"""The wanted sizes of pools: whether they can be, in words, and written."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from controlplane.core.errors import Invalid, StaleGeneration
from controlplane.fleet.models import Device
from controlplane.pools.models import Deployment, Pool
from inference.contracts.states import NodeDesired, Role

log = structlog.get_logger()


def workers_in_words(number: int) -> str:
    return f"{number} {'worker' if number == 1 else 'workers'}"


def shape_in_words(counts: Mapping[Role, int] | Mapping[str, int]) -> str:
    """ "2 prefill + 3 decode"."""
    return " + ".join(f"{count} {role}" for role, count in counts.items() if count) or "no workers"


def generation_check(pool: Pool, seen: int) -> None:
    """
    Raises:
        StaleGeneration: somebody changed the pool since; `current` is what it is now.
    """
    if seen != pool.generation:
        current = {"generation": pool.generation, "replicas": pool.replicas}
        raise StaleGeneration(f"The {pool.role} pool of {pool.deployment}", seen, current)


def limits_check(pool: Pool, replicas: int, *, field: str) -> None:
    """
    Raises:
        Invalid: outside the pool's own limits.
    """
    if not pool.min_replicas <= replicas <= pool.max_replicas:
        limits = f"{pool.min_replicas} to {pool.max_replicas}"
        raise Invalid(f"The {pool.role} pool has {limits} workers, not {replicas}.", field=field)


def fleet_check(pool: Pool, replicas: int, *, field: str) -> None:
    """
    Raises:
        Invalid: more than the whole fleet has devices (code "no_capacity"); making a pool smaller is always possible.
    """
    devices = Device.objects.filter(missing=False).exclude(node__desired=NodeDesired.RETIRED).count()
    needed = replicas * pool.tensor_parallel
    if replicas > pool.replicas and needed > devices:
        as_many = "as many devices" if pool.tensor_parallel == 1 else f"{needed} devices"
        raise Invalid(
            f"{workers_in_words(replicas)} need {as_many}, and the fleet has {devices}.",
            code="no_capacity",
            field=field,
        )


def counts_write(deployment: Deployment, counts: Mapping[Pool, int]) -> dict[str, int]:
    """Want so many workers in each pool; a pool whose number changes gets a new generation. What was wanted before, by
    role. The caller has locked the deployment."""
    before = {}
    for pool, replicas in counts.items():
        before[pool.role] = pool.replicas
        if pool.replicas != replicas:
            pool.replicas, pool.generation = replicas, pool.generation + 1
            pool.save(update_fields=["replicas", "generation"])
            log.info("pool resized", pool=f"{deployment}/{pool.role}", before=before[pool.role], after=replicas)
    return before
