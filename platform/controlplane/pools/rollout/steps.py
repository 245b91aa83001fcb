"""What a roll-out does next. Pure: everything is read from the state as it is now.

share 0 ──> first step ──(all ready, observed, judged by enough requests, or quiet)──> next ──> ... ──> all ──> promoted
                └────────(a worker fails, too many errors or misses, not through in time)──> taken back
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.pools.planning.revisions import candidate_workers, pairs_of
from controlplane.pools.planning.snapshot import PoolSeen, WorkerSeen
from controlplane.pools.progress import is_up
from controlplane.pools.rollout.health import Health, what_is_wrong
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.states import WorkerDesired, WorkerPhase


@dataclass(frozen=True, slots=True)
class RolloutSeen:
    """Fields as in the `Rollout` row. candidate: number of the revision."""

    candidate: int
    share: float
    judged: bool
    paused: bool
    step_at: datetime
    ready_at: datetime | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to change now. ready: whether all workers of the present share are ready. why: in words."""

    ready: bool
    why: str


@dataclass(frozen=True, slots=True)
class Step:
    share: float


@dataclass(frozen=True, slots=True)
class Promote:
    """Every worker runs the candidate, and it does well: it is the stable revision from now on."""


@dataclass(frozen=True, slots=True)
class TakeBack:
    why: str


Decision = Wait | Step | Promote | TakeBack


def decide(
    rollout: RolloutSeen,
    pools: Sequence[PoolSeen],
    workers: Sequence[WorkerSeen],
    health: Health,
    policy: RolloutPolicy,
    now: datetime,
) -> Decision:
    """What a roll-out does at `now`."""
    ours = [each for each in workers if each.revision == rollout.candidate and each.desired == WorkerDesired.RUN]
    failed = next((each for each in ours if each.phase == WorkerPhase.FAILED), None)
    if failed is not None:
        return TakeBack(f"{failed.name} failed: {failed.reason or 'no reason known'}")
    least = 1 if _observed_s(rollout, now) >= max(policy.observe_s, policy.quiet_s) else policy.min_requests
    if rollout.judged and (wrong := what_is_wrong(health, policy, least=least)):
        return TakeBack(wrong)
    waiting = _waits_for(rollout, pools, ours, health, policy, now)
    if waiting is None:
        return Promote() if rollout.share >= 1 else Step(next_share(rollout.share, pools, policy))
    late = (now - rollout.step_at).total_seconds() > policy.step_deadline_s
    if late and not rollout.paused:
        return TakeBack(f"not through after {policy.step_deadline_s:g} s: {waiting.why}")
    return waiting


def _waits_for(
    rollout: RolloutSeen,
    pools: Sequence[PoolSeen],
    ours: Sequence[WorkerSeen],
    health: Health,
    policy: RolloutPolicy,
    now: datetime,
) -> Wait | None:
    """Why the next step can't be made yet; None when it can."""
    wanted = candidate_workers(pools, rollout.share)
    up = {pool.pool_id: sum(each.pool_id == pool.pool_id and is_up(each, pool.role) for each in ours) for pool in pools}
    if any(up[pool_id] < count for pool_id, count in wanted.items()):
        return Wait(False, f"{sum(up.values())} of {sum(wanted.values())} workers are ready")
    if rollout.paused:
        return Wait(True, f"paused at {rollout.share:.0%}")
    if not rollout.judged or not rollout.share:
        return None
    observed = _observed_s(rollout, now)
    if observed < policy.observe_s:
        return Wait(True, f"is observed for {policy.observe_s - observed:.0f} s more")
    if health.requests < policy.min_requests and observed < policy.quiet_s:
        judged_by = f"has {health.requests} of the {policy.min_requests} requests that it is judged by"
        return Wait(True, f"{judged_by}, and goes on without more in {policy.quiet_s - observed:.0f} s")
    return None


def _observed_s(rollout: RolloutSeen, now: datetime) -> float:
    """Seconds since all workers of the present share became ready; 0 while they are not."""
    return 0.0 if rollout.ready_at is None else (now - rollout.ready_at).total_seconds()


def next_share(share: float, pools: Sequence[PoolSeen], policy: RolloutPolicy) -> float:
    """The share after `share`: one step more, or one pair. Steps that change nothing are made with the next one: where
    there is one pair only, all."""
    if policy.step is None:
        pairs = max(1, pairs_of(pools))
        return min(1.0, (round(share * pairs) + 1) / pairs)
    now, after = candidate_workers(pools, share), share
    while after < 1 and candidate_workers(pools, after) == now:
        after = min(1.0, after + policy.step)
    return after
