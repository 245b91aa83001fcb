"""Claims about plans that are carried out, one after the other, while things happen: what holds at every moment."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.preview import preview
from inference.contracts.states import NodeDesired, NodePhase, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import fleet, worker
from tests.control.pools.planning.world import PlanWorld, held, serving, worlds


@settings(deadline=None, derandomize=True, max_examples=150)
@given(worlds(), st.data())
def test_nothing_is_ever_over_committed_and_all_ends_well(world: PlanWorld, data: st.DataObject) -> None:
    """`PlanWorld.carry_out` checks each plan: one owner a device, the budget, the minimum, stable when made again."""
    for _ in range(data.draw(st.integers(0, 14))):
        world.carry_out()
        world.happen(lambda options: data.draw(st.sampled_from(options)))

    healed = {
        name: replace(node, phase=NodePhase.READY, desired=NodeDesired.ACTIVE)
        for name, node in world.state.nodes.items()
    }
    restarted = [
        replace(each, phase=WorkerPhase.STARTING) if each.phase == WorkerPhase.FAILED else each
        for each in world.state.workers
    ]
    world.state = replace(world.state, nodes=healed, workers=tuple(restarted))
    last = world.settle()

    counts = serving(world.state)
    replicas = {pool.pool_id: pool.replicas for pool in world.state.pools}
    up = [each for each in world.state.workers if (each.desired, each.phase) == (WorkerDesired.RUN, WorkerPhase.READY)]
    # Beside its successor an old worker may serve on, where there is no device for the other half of the new pair.
    for (pool_id, _), number in Counter((each.pool_id, each.revision) for each in up).items():
        assert number <= replicas[pool_id]
    if not last.refused:
        assert last == Plan(), "satisfied means an empty plan"
        assert all(counts[pool.pool_id] == pool.replicas for pool in world.state.pools)
        assert len(world.state.workers) == counts.total()


@settings(deadline=None, derandomize=True, max_examples=100)
@given(worlds(), st.data())
def test_a_preview_says_what_comes_to_pass_when_all_goes_well(world: PlanWorld, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 8))):
        world.carry_out()
        world.happen(lambda options: data.draw(st.sampled_from(options)))

    foreseen = preview(world.state)
    world.held_max = held(world.state)
    world.settle()

    assert foreseen.devices_max == world.held_max
    assert foreseen.devices_max <= max(foreseen.budget, foreseen.moments[0].devices)
    counts = serving(world.state)
    assert (foreseen.moments[-1].prefill, foreseen.moments[-1].decode) == (counts["prefill"], counts["decode"])
    assert not any(warning.startswith("It goes on") for warning in foreseen.warnings)


# -- F22: 4 GPUs, 1P3D to 3P1D


def traded(*, can_flip: bool, slots: int = 4) -> PlanWorld:
    workers = [worker("prefill-1"), *(worker(f"decode-{number}") for number in (1, 2, 3))]
    return PlanWorld(fleet(*workers, prefill=3, decode=1, slots=slots, can_flip=can_flip, budget=4))


@pytest.mark.parametrize("can_flip", [False, True])
@pytest.mark.parametrize("slots", [4, 8])
def test_trading_roles_never_holds_more_devices_than_before(can_flip: bool, slots: int) -> None:
    world = traded(can_flip=can_flip, slots=slots)
    world.settle()

    assert world.held_max == 4
    assert serving(world.state) == Counter({"prefill": 3, "decode": 1})
    assert plan(world.state) == Plan()


def test_drains_that_end_one_by_one_are_followed_by_starts_one_by_one() -> None:
    world = traded(can_flip=False)
    world.carry_out()
    leaving = [each for each in world.state.workers if each.desired == WorkerDesired.DRAIN]
    for number, each in enumerate(leaving, start=1):
        world._set(each, phase=WorkerPhase.STOPPED)
        assert len(world.carry_out().start) == 1
        assert held(world.state) == 4
        assert sum(each.pool_id == "prefill" for each in world.state.workers) == 1 + number


def test_a_start_that_never_gets_ready_can_be_given_up() -> None:
    """The prefill pool is made smaller again while its workers still start: they stop, and decode gets their places."""
    world = traded(can_flip=False)
    world.carry_out()
    leaving = [each for each in world.state.workers if each.desired == WorkerDesired.DRAIN]
    for each in leaving:
        world._set(each, phase=WorkerPhase.STOPPED)
    world.carry_out()
    prefill, decode = world.state.pools
    world.state = replace(world.state, pools=(replace(prefill, replicas=1), replace(decode, replicas=3)))
    made = world.carry_out()

    assert len(made.stop) == 2
    assert [unmet.reason for unmet in made.wait] == ["decode waits for 2 CPU slots being freed"]
    world.settle()
    assert serving(world.state) == Counter({"prefill": 1, "decode": 3})
    assert world.held_max == 4
