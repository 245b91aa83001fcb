"""How many workers of each revision a pool shall have while a new one is rolled out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from controlplane.pools.planning.snapshot import PoolSeen, Snapshot


def candidate_workers(pools: Sequence[PoolSeen], share: float) -> dict[str, int]:
    """Workers that shall run the candidate, by pool, at a share (0..1) of the deployment.

    Prefill and decode move together, because only workers of one revision can hand KV to each other: the smallest pool
    says how many pairs there are, `share` of them (at least one) run the candidate, and every pool gives the same part
    of its workers. As long as a pair is old, each pool keeps an old worker; and below a share of all, one pair stays
    old, however few there are: a candidate that was not judged yet never serves alone.
    """
    pairs = pairs_of(pools)
    # Rounded, so that a third of three pairs is one, not the next number above 0.9999999.
    new = pairs if share >= 1 else min(max(0, pairs - 1), math.ceil(round(share * pairs, 6)))
    return {pool.pool_id: pool.replicas * new // pairs if pairs else 0 for pool in pools}


def pairs_of(pools: Sequence[PoolSeen]) -> int:
    """Workers of the smallest pool that shall have any."""
    return min((pool.replicas for pool in pools if pool.replicas), default=0)


def wanted_by_revision(snapshot: Snapshot) -> dict[str, dict[int, int]]:
    """For each pool the workers wanted by revision.

    A revision of which none is wanted is left out: its workers are out of date. Not so in a pool that shall have no
    workers at all: those that it has are just too many, and another pool may want them.
    """
    new = dict.fromkeys((pool.pool_id for pool in snapshot.pools), 0)
    if snapshot.candidate is not None:
        new |= candidate_workers(snapshot.pools, snapshot.candidate_share)
    wanted: dict[str, dict[int, int]] = {}
    for pool in snapshot.pools:
        by_revision = {snapshot.stable: pool.replicas - new[pool.pool_id]}
        if snapshot.candidate is not None:
            by_revision[snapshot.candidate] = new[pool.pool_id]
        counted = {revision: count for revision, count in by_revision.items() if count}
        wanted[pool.pool_id] = counted or by_revision
    return wanted
