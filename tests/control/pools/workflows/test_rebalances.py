"""Claims about trading prefill for decode within the devices that a deployment has (F22)."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.core.errors import Conflict, Invalid, StaleGeneration
from controlplane.operations.services import OnConflict
from controlplane.pools import services
from controlplane.pools.models import Allocation, Worker
from inference.contracts.engines import ENGINES, Capabilities
from inference.contracts.states import OperationState, Role, WorkerPhase
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres


@pytest.fixture
def full(world: World) -> World:
    """Four devices, all held: 1 prefill, 3 decode."""
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=3)
    world.come_up()
    return world


def test_workers_change_over_and_no_device_changes_hands(full: World) -> None:
    held = full.allocations()
    operation = full.rebalance(3, 1)
    full.report()
    assert full.allocations() == held
    full.finish_drains()

    assert full.outcome(operation) == (OperationState.SUCCEEDED, "3 prefill and 1 decode workers ready.")
    assert full.allocations() == held
    assert full.serving() == {("prefill", 1): 3, ("decode", 1): 1}


def test_without_live_switching_one_is_released_before_another_starts(
    full: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "native", Capabilities(switches_role=False, tensor_parallel=False))
    operation = full.rebalance(3, 1)

    for _ in range(4):
        assert Allocation.objects.count() <= 4
        full.report()
        full.finish_drains()
        full.come_up()
    assert full.operation(operation).state == OperationState.SUCCEEDED
    assert full.serving() == {("prefill", 1): 3, ("decode", 1): 1}


def test_it_never_uses_a_device_more_although_some_are_free(world: World) -> None:
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=3)
    world.come_up()
    operation = world.rebalance(2, 2)
    assert operation.preview["budget"] == operation.preview["devices_max"] == 4
    for _ in range(3):
        assert Allocation.objects.count() <= 4
        world.report()
        world.finish_drains()

    assert world.operation(operation).state == OperationState.SUCCEEDED


def test_more_devices_than_before_are_no_rebalance(full: World) -> None:
    with pytest.raises(Invalid, match="keeps to the 4 devices") as refused:
        full.rebalance(3, 2)

    assert refused.value.code == "over_budget"


def test_it_names_both_generations(full: World) -> None:
    with pytest.raises(StaleGeneration):
        full.rebalance(3, 1, generations={Role.PREFILL: 1, Role.DECODE: 7})
    assert full.pool("prefill").replicas == 1


def test_a_worker_that_refuses_takes_its_part_back(full: World) -> None:
    operation = full.rebalance(3, 1)
    for process in full.agents["a"].processes.values():
        process.refuses = "could not become prefill: no"
    full.report()
    full.finish_drains()
    full.report()

    state, outcome = full.outcome(operation)
    assert (state, outcome.endswith("goes on as decode worker: could not become prefill: no")) == (
        OperationState.FAILED,
        True,
    )
    assert (full.pool("prefill").replicas, full.pool("decode").replicas) == (1, 3)
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 3}


def test_taken_back_the_workers_that_changed_over_change_back(full: World) -> None:
    operation = full.rebalance(3, 1)
    full.report()
    full.finish_drains()
    again = full.rebalance(2, 2)
    cancelled = full.cancel(again)
    full.report()
    full.finish_drains()

    assert full.operation(operation).state == OperationState.SUCCEEDED
    assert cancelled.state == OperationState.CANCELLED
    assert full.serving() == {("prefill", 1): 3, ("decode", 1): 1}


def test_a_stuck_change_can_be_given_up(full: World) -> None:
    """F22: a worker that never becomes ready holds nobody up."""
    operation = full.rebalance(3, 1)
    full.report()
    full.process("prefill-2").phase = WorkerPhase.LOADING
    full.report()
    full.cancel(operation)
    full.report()
    full.come_up()
    full.report()
    full.finish_drains()

    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 3}


def test_it_waits_in_the_queue_where_asked_and_begins_when_the_first_has_ended(full: World) -> None:
    flip = full.flip("decode-2")
    with pytest.raises(Conflict):
        full.rebalance(3, 1)
    waiting = full.rebalance(3, 1, on_conflict=OnConflict.QUEUE)
    assert full.operation(waiting).state == OperationState.QUEUED
    assert full.pool("prefill").replicas == 2, "nothing of it is wanted yet"

    full.report()
    full.finish_drains()
    assert full.operation(flip).state == OperationState.SUCCEEDED
    full.sweep()
    full.report()
    full.finish_drains()

    assert full.operation(waiting).state == OperationState.SUCCEEDED
    assert full.serving() == {("prefill", 1): 3, ("decode", 1): 1}


def test_a_worker_that_is_being_restarted_may_change_over_and_starts_anew_in_its_new_role(world: World) -> None:
    world.node("a", slots=3)
    world.deploy(prefill=1, decode=2)
    world.come_up()
    incarnations = {worker.pk: worker.incarnation for worker in Worker.objects.filter(pool__role="decode")}
    restarts = [world.restart(name) for name in ("decode-1", "decode-2")]
    operation = world.rebalance(2, 1)
    for _ in range(3):
        world.report()
        world.finish_drains()
        world.come_up()

    assert world.serving() == {("prefill", 1): 2, ("decode", 1): 1}
    assert {world.operation(each).state for each in (operation, *restarts)} == {OperationState.SUCCEEDED}
    assert all(Worker.objects.get(pk=pk).incarnation != before for pk, before in incarnations.items())


def test_what_can_not_be_put_back_within_the_limits_of_now_is_not_cancelled(full: World) -> None:
    operation = full.rebalance(2, 2)
    pool = full.pool("prefill")
    full.ask(_change, pool_id=pool.pk, generation=pool.generation, min_replicas=2)

    with pytest.raises(Invalid, match="2 to 64 workers, not 1"):
        full.cancel(operation)
    assert full.operation(operation).state == OperationState.RUNNING


def test_a_resize_is_not_cancelled_below_what_the_pool_must_have_now(full: World) -> None:
    full.node("b", slots=4)
    operation = full.resize("decode", 5).operation
    pool = full.pool("decode")
    full.ask(_change, pool_id=pool.pk, generation=pool.generation, min_replicas=4)

    assert operation is not None
    with pytest.raises(Invalid, match="4 to 64 workers, not 3"):
        full.cancel(operation)


def _change(*, requested_by: str, **wanted: Any) -> None:
    services.pool_change(**wanted)
