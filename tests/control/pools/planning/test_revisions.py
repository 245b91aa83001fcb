"""Claims about rolling out a revision, and rolling it back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.course import come_true
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.revisions import candidate_workers, wanted_by_revision
from controlplane.pools.planning.snapshot import PoolSeen, Snapshot
from inference.contracts.states import NodeDesired, Role, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import applied, fleet, worker


def pools(prefill: int, decode: int) -> list[PoolSeen]:
    return [PoolSeen("prefill", Role.PREFILL, prefill), PoolSeen("decode", Role.DECODE, decode)]


def rollout(prefill: int, decode: int, *, slots: int, share: float = 1.0, **more: object) -> Snapshot:
    """Everything of revision 1 is ready; revision 2 is the candidate."""
    counts = {Role.PREFILL: prefill, Role.DECODE: decode}
    workers = [worker(f"{role}-{number}") for role, replicas in counts.items() for number in range(1, replicas + 1)]
    return fleet(
        *workers, prefill=prefill, decode=decode, slots=slots, **{"candidate": 2, "candidate_share": share, **more}
    )


def ready(state: Snapshot) -> dict[str, Counter[int]]:
    """By pool, who takes requests, by revision."""
    serving: dict[str, Counter[int]] = {pool.pool_id: Counter() for pool in state.pools}
    for each in state.workers:
        if each.desired == WorkerDesired.RUN and each.phase == WorkerPhase.READY and each.role == each.pool_id:
            serving[each.pool_id][each.revision] += 1
    return serving


def pair_serves(state: Snapshot) -> bool:
    prefill, decode = ready(state).values()
    return bool(set(prefill) & set(decode))


def walked(state: Snapshot) -> list[Snapshot]:
    """Every state on the way, the first and the last included."""
    course = [state]
    for serial in range(60):
        made = plan(state)
        if not made.acts:
            return course
        state = applied(state, made, serial=serial)
        course.append(state)
        state = come_true(state)
        course.append(state)
    raise AssertionError("it does not end")


def devices_in_use(state: Snapshot) -> int:
    return sum(each.held_by is not None for each in state.devices)


# -- shares


@pytest.mark.parametrize(
    ("prefill", "decode", "share", "expected"),
    [
        (3, 6, 0.0, (0, 0)),
        (3, 6, 0.01, (1, 2)),
        (3, 6, 1 / 3, (1, 2)),
        (3, 6, 0.5, (2, 4)),
        (3, 6, 0.9, (2, 4)),
        (3, 6, 1.0, (3, 6)),
        (3, 7, 2 / 3, (2, 4)),
        (1, 5, 0.2, (0, 0)),
        (1, 5, 0.9, (0, 0)),
        (1, 5, 1.0, (1, 5)),
        (1, 0, 0.5, (0, 0)),
        (100, 100, 0.07, (7, 7)),
        (2, 0, 0.5, (1, 0)),
        (0, 0, 1.0, (0, 0)),
    ],
)
def test_pools_give_the_same_part_at_least_a_pair_and_the_last_pair_only_at_the_end(
    prefill: int, decode: int, share: float, expected: tuple[int, int]
) -> None:
    assert tuple(candidate_workers(pools(prefill, decode), share).values()) == expected


def test_without_a_candidate_all_shall_be_stable() -> None:
    assert wanted_by_revision(fleet(prefill=2, decode=0, stable=4)) == {"prefill": {4: 2}, "decode": {4: 0}}


# -- rolling out


def test_with_room_new_workers_start_first_and_old_ones_leave_when_a_pair_serves() -> None:
    state = rollout(1, 1, slots=4)
    made = plan(state)
    assert [(start.pool_id, start.revision) for start in made.start] == [("prefill", 2), ("decode", 2)]
    assert [start.reason for start in made.start] == [
        "prefill has 0 of 1 worker of revision 2",
        "decode has 0 of 1 worker of revision 2",
    ]
    assert made.drain == ()

    state = applied(state, made)
    half = replace(
        state,
        workers=tuple(
            replace(each, phase=WorkerPhase.READY, role=Role.PREFILL) if each.name == "prefill-new0.0" else each
            for each in state.workers
        ),
    )
    waiting = plan(half)
    assert not waiting.acts
    assert [unmet.reason for unmet in waiting.wait] == ["prefill-1 serves on until a pair of revision 2 does"]

    assert [(move.worker_id, move.reason) for move in plan(come_true(state)).drain] == [
        ("prefill-1", "revision 2 replaces revision 1"),
        ("decode-1", "revision 2 replaces revision 1"),
    ]


def test_on_a_full_fleet_a_pair_is_drained_and_then_a_pair_started() -> None:
    state = rollout(2, 2, slots=4)
    made = plan(state)
    assert [move.worker_id for move in made.drain] == ["prefill-1", "decode-1"]
    assert made.start == made.refused == ()

    state = come_true(applied(state, made))
    assert [(start.pool_id, start.revision) for start in plan(state).start] == [("prefill", 2), ("decode", 2)]


@pytest.mark.parametrize(("prefill", "decode"), [(2, 2), (2, 4), (3, 5), (2, 7)])
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_pair_serves_throughout_and_no_device_more_is_used_than_there_are(
    prefill: int, decode: int, spare: int
) -> None:
    total = prefill + decode
    course = walked(rollout(prefill, decode, slots=total + spare))

    assert all(pair_serves(state) for state in course)
    assert max(devices_in_use(state) for state in course) <= total + spare
    assert ready(course[-1]) == {"prefill": {2: prefill}, "decode": {2: decode}}
    assert len(course[-1].workers) == total


def test_a_budget_makes_any_fleet_a_full_one() -> None:
    course = walked(rollout(2, 3, slots=9, budget=5))

    assert max(devices_in_use(state) for state in course) == 5
    assert ready(course[-1]) == {"prefill": {2: 2}, "decode": {2: 3}}


@pytest.mark.parametrize(("prefill", "decode"), [(1, 1), (1, 3), (2, 1)])
def test_a_single_pair_on_a_full_fleet_is_replaced_all_the_same(prefill: int, decode: int) -> None:
    course = walked(rollout(prefill, decode, slots=prefill + decode))

    assert not all(pair_serves(state) for state in course), "there is no other way"
    assert ready(course[-1]) == {"prefill": {2: prefill}, "decode": {2: decode}}


def test_but_not_where_a_minimum_forbids_it_and_it_says_so() -> None:
    made = plan(rollout(1, 1, slots=2, pool={"min_replicas": 1}))

    assert not made.acts
    assert [unmet.reason for unmet in made.wait] == [
        "prefill-1 serves on until a pair of revision 2 does",
        "decode-1 serves on until a pair of revision 2 does",
    ]
    assert [unmet.reason for unmet in made.refused] == [
        "prefill needs 1 free CPU slot: 2 CPU slots, all taken",
        "decode needs 1 free CPU slot: 2 CPU slots, all taken",
    ]


def test_the_minimum_is_kept_on_the_way() -> None:
    course = walked(rollout(3, 3, slots=6, pool={"min_replicas": 2}))

    assert all(sum(serving.values()) >= 2 for state in course for serving in ready(state).values())
    assert ready(course[-1]) == {"prefill": {2: 3}, "decode": {2: 3}}


def test_large_pools_are_replaced_a_tenth_at_a_time() -> None:
    made = plan(rollout(20, 40, slots=60))

    assert Counter(move.worker_id.split("-")[0] for move in made.drain) == {"prefill": 2, "decode": 4}


def test_a_free_device_goes_where_nobody_stands_in() -> None:
    workers = [worker("prefill-1"), worker("prefill-2"), worker("decode-1")]
    made = plan(fleet(*workers, prefill=2, decode=2, slots=4, candidate=2, candidate_share=1.0))

    assert [(start.pool_id, start.revision) for start in made.start] == [("decode", 2)]


def test_half_a_new_pair_waits_beside_the_old_one_that_may_not_leave() -> None:
    """One spare device, and neither pool may go below its one worker."""
    state = walked(rollout(1, 1, slots=3, pool={"min_replicas": 1}))[-1]

    assert pair_serves(state)
    assert ready(state) == {"prefill": {1: 1, 2: 1}, "decode": {1: 1}}
    assert [unmet.reason for unmet in plan(state).refused] == ["decode needs 1 free CPU slot: 3 CPU slots, all taken"]


def test_while_a_candidate_is_tried_the_only_pair_stays_old() -> None:
    """A deployment made smaller in the middle of a roll-out."""
    course = walked(rollout(2, 2, slots=4, share=0.5))
    small = replace(course[-1], pools=tuple(replace(pool, replicas=1) for pool in course[-1].pools))
    course = walked(small)

    assert ready(course[-1]) == {"prefill": {1: 1}, "decode": {1: 1}}
    assert all(pair_serves(state) for state in course)


def test_at_a_share_the_rest_stays_old() -> None:
    course = walked(rollout(4, 8, slots=12, share=0.5))

    assert ready(course[-1]) == {"prefill": {1: 2, 2: 2}, "decode": {1: 4, 2: 4}}


def test_a_candidate_that_does_not_come_up_takes_nothing_more_down() -> None:
    state = rollout(3, 3, slots=6)
    state = come_true(applied(state, plan(state)))
    state = applied(state, plan(state), serial=1)
    failed = [replace(each, phase=WorkerPhase.FAILED) if each.revision == 2 else each for each in state.workers]

    assert not plan(replace(state, workers=tuple(failed))).acts


def test_a_last_pair_is_not_given_up_for_a_candidate_that_failed() -> None:
    """One free device: the new prefill worker took it, and failed."""
    state = rollout(1, 1, slots=3)
    state = applied(state, plan(state))
    failed = [replace(each, phase=WorkerPhase.FAILED) if each.revision == 2 else each for each in state.workers]

    assert not plan(replace(state, workers=tuple(failed))).acts


def test_old_workers_on_a_cordoned_node_are_not_drained_for_nothing() -> None:
    """Their devices would not be given out again."""
    made = plan(rollout(2, 2, slots=4, desired={"a": NodeDesired.CORDONED}))

    assert not made.acts
    assert {unmet.pool_id for unmet in made.refused} == {"prefill", "decode"}


def test_what_one_pool_releases_is_for_its_own_new_worker() -> None:
    """Prefill may not go below its minimum, decode may: prefill does not count on the device that decode lets go."""
    state = rollout(1, 2, slots=6, budget=3, pool={"min_replicas": 1})
    made = plan(state)

    assert [move.worker_id for move in made.drain] == ["decode-1"]
    for each in (made, plan(applied(state, made))):
        assert "decode waits for 1 CPU slot being freed" in [unmet.reason for unmet in each.wait]
        assert [unmet.pool_id for unmet in each.refused] == ["prefill"]


def test_what_was_drained_to_make_room_in_its_own_pool_does_not_change_over_to_the_other() -> None:
    """The node of the decode worker is silent, and no device is free."""
    away = worker("decode-1", WorkerPhase.UNKNOWN, node="b")
    state = fleet(
        worker("prefill-1"),
        worker("prefill-2", node="c"),
        away,
        prefill=2,
        decode=2,
        nodes=("a", "b", "c"),
        lost=("b",),
        slots=1,
        can_flip=True,
        candidate=2,
        candidate_share=0.5,
    )
    made = plan(state)

    assert len(made.drain) == 1
    assert not plan(applied(state, made)).acts


# -- rolling back


def test_rolling_back_takes_drains_back_and_stops_what_has_not_come_up() -> None:
    state = rollout(2, 2, slots=4)
    state = applied(state, plan(state))
    state = replace(
        state,
        workers=(*state.workers, worker("decode-9", WorkerPhase.FAILED, revision=2)),
        candidate=None,
    )
    made = plan(state)

    assert sorted(move.worker_id for move in made.undrain) == ["decode-1", "prefill-1"]
    assert [move.worker_id for move in made.stop] == ["decode-9"]
    assert made.start == made.drain == ()


def test_rolling_back_a_candidate_that_serves_replaces_it_the_same_way() -> None:
    state = walked(rollout(2, 2, slots=4))[-1]
    course = walked(replace(state, candidate=None))

    assert all(pair_serves(each) for each in course)
    assert ready(course[-1]) == {"prefill": {1: 2}, "decode": {1: 2}}


def test_a_satisfied_rollout_is_left_alone() -> None:
    assert plan(walked(rollout(4, 8, slots=12, share=0.5))[-1]) == Plan()
