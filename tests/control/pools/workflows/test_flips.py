"""Claims about one worker changing its role: it keeps its process and its devices, and goes back when it can't."""

from __future__ import annotations

import pytest

from controlplane.core.errors import Conflict, Invalid
from controlplane.pools.models import Pool
from inference.contracts.reports import WorkerLoad
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


def sizes(world: World) -> tuple[int, int]:
    return world.pool("prefill").replicas, world.pool("decode").replicas


def test_it_leaves_the_table_drains_switches_and_is_listed_again(full: World) -> None:
    worker, held = full.worker("decode-2"), full.allocations()
    operation = full.flip("decode-2")

    assert sizes(full) == (2, 2)
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 2}
    full.process("prefill-2").load = WorkerLoad(
        running=3, waiting=0, waiting_tokens=0, kv_blocks_used=9, kv_blocks_total=100
    )
    full.report()
    assert full.steps(operation) == ["prefill-2 finishes what it has as decode: 3 answers left"]
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 2}, "not before it says that it is prefill"
    full.finish_drains()

    flipped = full.worker("prefill-2")
    assert (flipped.pk, flipped.incarnation) == (worker.pk, worker.incarnation)
    assert full.allocations() == held
    assert full.serving() == {("prefill", 1): 2, ("decode", 1): 2}
    assert full.outcome(operation) == (
        OperationState.SUCCEEDED,
        "prefill-2 takes requests as prefill worker.",
    )


def test_the_title_and_the_preview_say_how(full: World) -> None:
    operation = full.operation(full.flip("decode-2"))

    assert operation.title == "Flip decode-2 of m to prefill, with its weights loaded"
    assert (operation.before, operation.after) == ("3 decode + 1 prefill", "2 decode + 2 prefill")
    assert operation.preview["flip"] == ["decode-2 on a: decode to prefill"]
    assert operation.preview["devices_max"] == 4
    assert operation.preview["start"] == operation.preview["stop"] == []


def test_a_worker_that_can_not_switch_goes_on_as_it_was_and_the_sizes_go_back(full: World) -> None:
    operation = full.flip("decode-2")
    full.process("prefill-2").refuses = "could not become prefill: the token was wrong"
    full.report()
    full.finish_drains()
    full.report()

    assert full.outcome(operation) == (
        OperationState.FAILED,
        "decode-2 goes on as decode worker: could not become prefill: the token was wrong",
    )
    assert sizes(full) == (1, 3)
    assert set(full.phases().values()) == {"ready"}
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 3}


def test_a_refusal_of_an_earlier_try_does_not_end_the_next(full: World) -> None:
    full.flip("decode-2")
    full.process("prefill-2").refuses = "not now"
    full.report()
    full.finish_drains()
    full.report()
    message = full.agents["a"].message()
    full.process("decode-2").refuses = ""

    again = full.flip("decode-2")
    full.deliver(message)
    assert full.operation(again).state == OperationState.RUNNING
    full.report()
    full.finish_drains()

    assert full.operation(again).state == OperationState.SUCCEEDED


def test_it_is_taken_back_before_and_after_the_switch(full: World) -> None:
    cancelled = full.cancel(full.flip("decode-2"))
    assert (cancelled.state, sizes(full)) == (OperationState.CANCELLED, (1, 3))
    assert "decode-2 shall be a decode worker again." in cancelled.outcome
    full.report()
    assert full.serving() == {("prefill", 1): 1, ("decode", 1): 3}


def test_a_flip_survives_its_agents_restart_as_another_process(full: World) -> None:
    """An engine that can't switch is started anew on its devices; for us it is the same flip."""
    operation = full.flip("decode-2")
    process = full.process("prefill-2")
    process.role, process.phase = Role.PREFILL, WorkerPhase.LOADING
    full.report()
    assert full.operation(operation).state == OperationState.RUNNING
    full.come_up()

    assert full.operation(operation).state == OperationState.SUCCEEDED


def test_a_worker_that_dies_on_the_way_fails_the_operation_and_keeps_its_new_place(full: World) -> None:
    operation = full.flip("decode-2")
    process = full.process("prefill-2")
    process.phase, process.reason = WorkerPhase.FAILED, "killed"
    full.report()

    assert full.outcome(operation) == (OperationState.FAILED, "prefill-2 failed: killed.")


def test_what_can_not_be_flipped_is_refused_and_changes_nothing(full: World) -> None:
    Pool.objects.filter(role="decode").update(min_replicas=3)
    with pytest.raises(Invalid, match="decode pool has 3 to 64 workers, not 2"):
        full.flip("decode-2")
    full.process("decode-2").phase = WorkerPhase.LOADING
    full.report()
    with pytest.raises(Conflict, match="decode-2 is loading"):
        full.flip("decode-2")
    assert sizes(full) == (1, 3)


def test_unified_workers_have_no_other_role(world: World) -> None:
    world.node("a")
    world.deploy(unified=1)
    world.come_up()
    with pytest.raises(Conflict, match="unified workers"):
        world.flip("unified-1")


def test_a_second_change_of_these_pools_is_refused_with_the_first_named(full: World) -> None:
    first = full.flip("decode-2")
    with pytest.raises(Conflict) as refused:
        full.resize("decode", 1)

    assert refused.value.code == "operation_conflict"
    assert refused.value.current is not None
    assert refused.value.current["operation"] == str(first.pk)
