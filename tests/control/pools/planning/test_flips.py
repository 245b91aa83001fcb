"""Claims about workers that change from one pool to the other (F22)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.snapshot import Snapshot, WorkerSeen
from inference.contracts.states import NodeDesired, Role, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import applied, device, fleet, of_every_state, worker

PREFILL, DECODE = Role.PREFILL, Role.DECODE


def flipped(made: Plan) -> list[tuple[str, str]]:
    return [(flip.worker_id, flip.to_pool) for flip in made.flip]


def trade(*changed: WorkerSeen, prefill: int = 3, decode: int = 1, slots: int = 4, **more: object) -> Snapshot:
    """1P3D on four devices that shall be 3P1D, some of its workers `changed`."""
    workers = {each.name: each for each in (worker("prefill-1"), *(worker(f"decode-{number}") for number in (1, 2, 3)))}
    workers |= {each.name: each for each in changed}
    return fleet(*workers.values(), prefill=prefill, decode=decode, slots=slots, **{"can_flip": True, **more})


def test_trading_decode_for_prefill_flips_and_neither_starts_nor_stops_anybody() -> None:
    made = plan(trade())

    assert len(made.flip) == 2
    assert made == Plan(flip=made.flip)
    assert made.flip[0].reason == "prefill shall have 3 workers, decode 1"
    assert plan(applied(trade(), made)) == Plan()


def test_the_least_busy_change_over() -> None:
    assert flipped(plan(trade(worker("decode-2", busy=7)))) == [("decode-1", "prefill"), ("decode-3", "prefill")]


def test_a_worker_being_flipped_fills_a_place_of_its_new_pool() -> None:
    switching = worker("decode-2", WorkerPhase.SWITCHING, pool_id="prefill")
    draining = worker("decode-3", WorkerPhase.DRAINING, pool_id="prefill")

    assert plan(trade(switching, draining)) == Plan()


def test_taking_a_trade_back_flips_those_that_have_not_changed_yet() -> None:
    done = worker("decode-2", pool_id="prefill", role=PREFILL)
    draining = worker("decode-3", WorkerPhase.DRAINING, pool_id="prefill", busy=9)

    assert flipped(plan(trade(done, draining, prefill=2, decode=2))) == [("decode-3", "decode")]


def test_a_worker_that_is_draining_anyway_changes_over_first() -> None:
    draining = worker("decode-3", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN, busy=9)

    assert flipped(plan(trade(draining, prefill=2))) == [("decode-3", "prefill")]


def test_a_drain_is_cancelled_before_anybody_changes_over() -> None:
    resting = worker("prefill-1", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN)
    made = plan(trade(resting, prefill=1))

    assert [move.worker_id for move in made.undrain] == ["prefill-1"]
    assert made.flip == ()


def test_what_is_not_up_can_not_change_over_and_goes() -> None:
    loading = [worker(f"decode-{number}", WorkerPhase.LOADING) for number in (2, 3)]
    made = plan(trade(*loading))

    assert made.flip == made.start == ()
    assert sorted(move.worker_id for move in made.stop) == ["decode-2", "decode-3"]
    assert [unmet.reason for unmet in made.wait] == ["prefill waits for 2 CPU slots being freed"]


def test_a_worker_that_refused_the_role_is_not_asked_again() -> None:
    """It has been put back; now it is released, and another is started on its device."""
    state = trade(worker("decode-2", refused_role=PREFILL), worker("decode-1", busy=9))
    made = plan(state)

    assert flipped(made) == [("decode-3", "prefill")]
    assert [move.worker_id for move in made.drain] == ["decode-2"]
    assert [unmet.reason for unmet in made.wait] == ["prefill waits for 1 CPU slot being freed"]


def test_an_engine_that_can_not_flip_releases_first_and_starts_then() -> None:
    made = plan(trade(can_flip=False))

    assert made.flip == made.start == ()
    assert len(made.drain) == 2
    assert [unmet.reason for unmet in made.wait] == ["prefill waits for 2 CPU slots being freed"]


def test_a_budget_holds_also_while_devices_are_free() -> None:
    """A rebalance never uses more than before, though the fleet has more."""
    state = trade(can_flip=False, slots=8, budget=4)
    made = plan(state)

    assert made.start == ()
    assert [unmet.reason for unmet in made.wait] == ["prefill waits for 2 CPU slots being freed"]
    assert len(plan(replace(state, budget=5)).start) == 1


def test_a_budget_that_is_used_up_is_named() -> None:
    state = fleet(worker("decode-1"), decode=2, budget=1)

    assert [unmet.reason for unmet in plan(state).refused] == [
        "decode needs 1 free CPU slot: the deployment may hold 1 device for now, and holds them"
    ]


@pytest.mark.parametrize("more", [{"labels": frozenset({"x"})}, {"bytes_needed": 80}, {"tensor_parallel": 2}])
def test_a_worker_whose_devices_the_new_pool_can_not_use_does_not_change_over(more: dict) -> None:
    state = trade(devices=(*(device(f"a/{index}", f"decode-{index}", memory_total=40) for index in (1, 2, 3)),))
    prefill, decode = state.pools

    assert plan(replace(state, pools=(replace(prefill, **more), decode))).flip == ()
    assert plan(state).flip != ()


def test_nobody_changes_over_on_a_node_that_is_being_drained_but_on_a_cordoned_one() -> None:
    assert plan(trade(desired={"a": NodeDesired.DRAINING})).flip == ()
    assert len(plan(trade(desired={"a": NodeDesired.CORDONED})).flip) == 2


def test_only_workers_of_a_revision_that_is_missing_change_over() -> None:
    assert plan(trade(*(worker(f"decode-{number}", revision=7) for number in (1, 2, 3)))).flip == ()


@of_every_state
def test_a_flip_keeps_devices_and_takes_none_from_a_pool_that_needs_it(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    by_id = {each.worker_id: each for each in snapshot.workers}
    pools = {each.pool_id: each for each in snapshot.pools}
    lacking = {unmet.pool_id for unmet in made.refused} | {start.pool_id for start in made.start}
    for flip in made.flip:
        seen = by_id[flip.worker_id]
        assert snapshot.can_flip
        assert seen.pool_id == flip.from_pool != flip.to_pool
        assert seen.refused_role != pools[flip.to_pool].role
        assert flip.from_pool not in lacking or seen.revision != snapshot.stable or snapshot.candidate is not None


@of_every_state
def test_a_flip_is_not_taken_back_in_the_next_plan(snapshot: Snapshot) -> None:
    made = plan(snapshot)

    assert plan(applied(snapshot, made)).flip == ()
