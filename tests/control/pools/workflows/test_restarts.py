"""Claims about starting one worker again."""

from __future__ import annotations

import pytest

from controlplane.core.errors import Conflict
from controlplane.operations.models import Operation
from inference.contracts.states import OperationKind, OperationState, WorkerPhase
from tests.control.pools.world import World


@pytest.fixture
def pair(world: World) -> World:
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return world


def fail(world: World, name: str, reason: str = "out of memory") -> None:
    process = world.process(name)
    process.phase, process.attempts, process.reason = WorkerPhase.FAILED, 5, reason
    world.report()


def test_one_that_failed_starts_at_once_with_a_clean_record(pair: World) -> None:
    """F11: a manual retry resets the counter."""
    fail(pair, "decode-1")
    operation = pair.restart("decode-1")

    assert pair.worker("decode-1").phase == WorkerPhase.FAILED, "only its node says otherwise"
    assert pair.operation(operation).state == OperationState.RUNNING, "what was seen before says nothing"
    pair.report()
    assert (pair.worker("decode-1").phase, pair.worker("decode-1").attempts) == (WorkerPhase.STARTING, 1)
    pair.come_up()
    assert pair.outcome(operation) == (OperationState.SUCCEEDED, "decode-1 is ready.")
    assert pair.worker("prefill-1").phase == WorkerPhase.READY


def test_one_that_fails_again_fails_the_operation_with_its_reason(pair: World) -> None:
    fail(pair, "decode-1")
    operation = pair.restart("decode-1")
    pair.report()
    fail(pair, "decode-1", "still out of memory")

    assert pair.outcome(operation) == (OperationState.FAILED, "decode-1 failed: still out of memory.")
    assert pair.retry(operation).retry_of == operation
    pair.come_up()
    assert pair.outcome(Operation.objects.latest("requested_at"))[0] == OperationState.SUCCEEDED


def test_one_that_serves_finishes_what_it_has_and_starts_anew_on_its_devices(pair: World) -> None:
    before, held = pair.worker("decode-1"), pair.allocations()
    operation = pair.restart("decode-1")
    assert operation.preview is not None, "people are told before"
    assert list(operation.preview["warnings"]) == ["Nothing serves between “drain decode-1” and “decode-1 ready”."]
    assert pair.serving() == {("prefill", 1): 1}, "it takes nothing new"
    pair.report()
    assert pair.phases()["decode-1"] == "draining"
    assert pair.worker("decode-1").pk == before.pk, "it keeps its place: nothing is started instead"

    pair.finish_drains()
    assert pair.worker("decode-1").incarnation != before.incarnation
    pair.come_up()

    assert pair.outcome(operation) == (OperationState.SUCCEEDED, "decode-1 is ready.")
    assert pair.allocations() == held
    assert pair.serving() == {("prefill", 1): 1, ("decode", 1): 1}


def test_a_worker_that_is_restarted_can_be_shrunk_away(pair: World) -> None:
    pair.restart("decode-1")
    pair.resize("decode", 0)
    pair.report()
    pair.finish_drains()

    assert set(pair.phases()) == {"prefill-1"}


def test_asking_twice_the_later_takes_over(pair: World) -> None:
    fail(pair, "decode-1")
    first, second = pair.restart("decode-1"), pair.restart("decode-1")

    assert pair.operation(first).state == OperationState.SUPERSEDED
    assert pair.operation(second).kind == OperationKind.RESTART_WORKER


def test_one_that_is_to_go_is_not_restarted(pair: World) -> None:
    pair.resize("decode", 0)
    with pytest.raises(Conflict, match="decode-1 is on its way out"):
        pair.restart("decode-1")


def test_one_out_of_sight_is_not_restarted(pair: World) -> None:
    pair.lose("a")
    with pytest.raises(Conflict, match="its node is silent"):
        pair.restart("decode-1")
