"""Claims about what a roll-out does next, and about when a revision does well enough. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import Invalid
from controlplane.pools.planning.snapshot import PoolSeen, WorkerSeen
from controlplane.pools.rollout.health import Health, health_of, share_above, what_is_wrong
from controlplane.pools.rollout.policy import policy_check
from controlplane.pools.rollout.steps import Decision, Promote, RolloutSeen, Step, TakeBack, Wait, decide, next_share
from inference.contracts.histogram import Histogram
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.states import Role, WorkerPhase
from inference.contracts.timings import Counter, Latency, Window
from tests.control.pools.planning.fleets import NOW, worker

POOLS = [PoolSeen("prefill", Role.PREFILL, 2), PoolSeen("decode", Role.DECODE, 4)]
POLICY = RolloutPolicy(observe_s=30, min_requests=10, max_error_rate=0.1, max_slo_miss_rate=0.2, step_deadline_s=600)
GOOD = Health(requests=100, error_rate=0.0, slo_miss_rate=0.0)
AT_HALF = RolloutSeen(
    candidate=2,
    share=0.5,
    judged=True,
    paused=False,
    step_at=NOW - timedelta(seconds=100),
    ready_at=NOW - timedelta(seconds=40),
)
HALF_UP = [worker(name, revision=2) for name in ("prefill-1", "decode-1", "decode-2")]


def decided(
    rollout: RolloutSeen = AT_HALF,
    workers: Sequence[WorkerSeen] = HALF_UP,
    health: Health = GOOD,
    policy: RolloutPolicy = POLICY,
) -> Decision:
    return decide(rollout, POOLS, workers, health, policy, NOW)


def test_a_step_that_was_well_for_long_enough_is_followed_by_the_next() -> None:
    assert decided() == Step(1.0)


def test_the_last_step_promotes() -> None:
    workers = [
        worker(f"{role}-{n}", revision=2) for role, count in (("prefill", 2), ("decode", 4)) for n in range(count)
    ]

    assert decided(replace(AT_HALF, share=1.0), workers) == Promote()


def test_it_begins_at_once() -> None:
    assert decided(replace(AT_HALF, share=0.0, ready_at=None), [], Health()) == Step(0.5)


@pytest.mark.parametrize(
    ("rollout", "workers", "health", "why"),
    [
        (AT_HALF, HALF_UP[:2], GOOD, "2 of 3 workers are ready"),
        (AT_HALF, [*HALF_UP[:2], replace(HALF_UP[2], phase=WorkerPhase.LOADING)], GOOD, "2 of 3 workers are ready"),
        (replace(AT_HALF, ready_at=NOW), HALF_UP, GOOD, "is observed for 30 s more"),
        (replace(AT_HALF, ready_at=None), HALF_UP, GOOD, "is observed for 30 s more"),
        (replace(AT_HALF, paused=True), HALF_UP, GOOD, "paused at 50%"),
        (
            AT_HALF,
            HALF_UP,
            Health(requests=3),
            "has 3 of the 10 requests that it is judged by, and goes on without more in 260 s",
        ),
        (
            AT_HALF,
            HALF_UP,
            Health(),
            "has 0 of the 10 requests that it is judged by, and goes on without more in 260 s",
        ),
    ],
)
def test_it_waits_and_says_what_for(rollout: RolloutSeen, workers: list[WorkerSeen], health: Health, why: str) -> None:
    decision = decided(rollout, workers, health)

    assert isinstance(decision, Wait)
    assert decision.why == why


@pytest.mark.parametrize(
    ("rollout", "workers", "health", "why"),
    [
        (
            AT_HALF,
            [replace(HALF_UP[0], phase=WorkerPhase.FAILED, reason="no such file"), *HALF_UP[1:]],
            GOOD,
            "prefill-1 failed: no such file",
        ),
        (AT_HALF, HALF_UP, Health(50, 0.2, 0.0), "20.0% of 50 requests failed, more than 10.0%"),
        (AT_HALF, HALF_UP, Health(50, 0.0, 0.5), "50.0% of 50 requests missed what is promised, more than 20.0%"),
        (replace(AT_HALF, paused=True), HALF_UP, Health(50, 0.2, 0.0), "20.0% of 50 requests failed, more than 10.0%"),
        (
            replace(AT_HALF, step_at=NOW - timedelta(seconds=601)),
            [],
            GOOD,
            "not through after 600 s: 0 of 3 workers are ready",
        ),
    ],
)
def test_what_does_badly_is_taken_back_with_the_reason(
    rollout: RolloutSeen, workers: list[WorkerSeen], health: Health, why: str
) -> None:
    assert decided(rollout, workers, health) == TakeBack(why)


def test_a_pause_has_no_deadline() -> None:
    paused = replace(AT_HALF, paused=True, step_at=NOW - timedelta(days=1))

    assert isinstance(decided(paused), Wait)


def test_few_requests_say_nothing() -> None:
    """One failure of one request is no error rate of 100 %."""
    assert what_is_wrong(Health(1, 1.0, 1.0), POLICY, least=10) == ""
    assert what_is_wrong(Health(), POLICY, least=0) == ""


def test_where_nobody_asks_anything_it_goes_on_after_a_while() -> None:
    quiet = replace(AT_HALF, ready_at=NOW - timedelta(seconds=POLICY.quiet_s))

    assert decided(quiet, HALF_UP, Health()) == Step(1.0)
    assert decided(quiet, HALF_UP, Health(3, 0.0, None)) == Step(1.0)


def test_the_few_requests_of_a_quiet_time_are_judged() -> None:
    quiet = replace(AT_HALF, ready_at=NOW - timedelta(seconds=POLICY.quiet_s))

    assert decided(quiet, HALF_UP, Health(2, 0.5, None)) == TakeBack("50.0% of 2 requests failed, more than 10.0%")


def test_a_roll_back_is_not_judged() -> None:
    back = replace(AT_HALF, judged=False, share=1.0, ready_at=None)
    workers = [
        worker(f"{role}-{n}", revision=2) for role, count in (("prefill", 2), ("decode", 4)) for n in range(count)
    ]

    assert decided(back, workers, Health(100, 1.0, 1.0)) == Promote()


@given(
    share=st.floats(0, 1),
    pools=st.lists(st.integers(0, 9), min_size=1, max_size=2),
    step=st.none() | st.floats(0.05, 1),
)
def test_every_step_leads_on_and_the_last_is_the_whole(share: float, pools: list[int], step: float | None) -> None:
    seen = [PoolSeen(str(number), Role.DECODE, replicas) for number, replicas in enumerate(pools)]
    policy = RolloutPolicy(step=step)
    for _ in range(30):
        if share >= 1:
            break
        after = next_share(share, seen, policy)
        assert after > share or after == 1.0
        share = after
    assert share == 1.0


def test_one_pair_at_a_time_goes_by_the_smaller_pool() -> None:
    assert next_share(0.0, POOLS, RolloutPolicy()) == 0.5
    assert next_share(0.5, POOLS, RolloutPolicy()) == 1.0


def test_steps_that_change_nothing_are_made_with_the_one_that_does() -> None:
    one_pair = [PoolSeen("prefill", Role.PREFILL, 1), PoolSeen("decode", Role.DECODE, 5)]
    assert next_share(0.0, one_pair, RolloutPolicy(step=0.25)) == 1.0
    assert next_share(0.5, one_pair, RolloutPolicy(step=0.25)) == 1.0
    assert next_share(0.0, POOLS, RolloutPolicy(step=0.25)) == 0.25
    assert next_share(0.25, POOLS, RolloutPolicy(step=0.25)) == 1.0, "one of two pairs at 25, 50 and 75%"


def window(completed: int = 0, failed: int = 0, ttft: tuple[float, ...] = (), tpot: tuple[float, ...] = ()) -> Window:
    made = Window(second=0, source="", deployment="m", revision=2)
    made.counters = {Counter.COMPLETED: completed, Counter.FAILED: failed}
    for latency, times in ((Latency.TTFT, ttft), (Latency.TPOT, tpot)):
        for seconds in times:
            made.observe(latency, seconds)
    return made


def test_health_is_read_from_what_the_revision_did() -> None:
    seen = window(completed=9, failed=1, ttft=(0.1, 0.1, 0.1, 2.0), tpot=(0.01, 0.2))

    assert health_of(seen, slo_ttft_s=1.0, slo_tpot_s=0.1) == Health(10, 0.1, 0.5)
    assert health_of(seen, slo_ttft_s=1.0, slo_tpot_s=None) == Health(10, 0.1, 0.25)
    assert health_of(seen, slo_ttft_s=None, slo_tpot_s=None) == Health(10, 0.1, None)


def test_nothing_seen_is_not_known_rather_than_good() -> None:
    assert health_of(window(), slo_ttft_s=1.0, slo_tpot_s=1.0) == Health(0, None, None)
    assert share_above(Histogram(), 1.0) is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"step": 0.0}, "policy.step"),
        ({"step": 1.5}, "policy.step"),
        ({"observe_s": -1.0}, "policy.observe_s"),
        ({"max_error_rate": 1.1}, "policy.max_error_rate"),
        ({"max_slo_miss_rate": float("nan")}, "policy.max_slo_miss_rate"),
        ({"min_requests": -1}, "policy.min_requests"),
        ({"quiet_s": -1.0}, "policy.quiet_s"),
        ({"step_deadline_s": 0.0}, "policy.step_deadline_s"),
    ],
)
def test_a_policy_that_can_not_be_is_refused_with_its_field(wrong: dict[str, float], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        policy_check(RolloutPolicy(**wrong))  # type: ignore[arg-type]

    assert refused.value.field == field
