"""Claims about workers that die, hang or leave: routers stop at once, the reason stays, nothing of them is left behind
(F28, F09, F37)."""

from __future__ import annotations

import pytest

from controlplane.telemetry.merge import GAUGE_SPAN_S, Live
from controlplane.telemetry.stream import StreamId
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import OperationState, Role, WorkerPhase
from inference.contracts.timings import Gauge, Window
from tests.control.pools.world import World

pytestmark = pytest.mark.postgres


@pytest.fixture
def serving(world: World) -> World:
    world.node("a", slots=4)
    world.deploy(prefill=1, decode=2)
    world.come_up()
    return world


def test_the_first_report_of_a_death_takes_a_worker_out_of_the_table_and_keeps_the_reason(serving: World) -> None:
    """F28: killed from outside. One report is one heartbeat; its agent starts it again by itself."""
    process = serving.process("decode-1")
    process.phase, process.reason = WorkerPhase.BACKOFF, "killed by signal 9"
    serving.report()

    assert serving.serving() == {("prefill", 1): 1, ("decode", 1): 1}
    shown = next(each for pool in serving.view().pools for each in pool.workers if each.name == "decode-1")
    assert (shown.phase, shown.reason) == (WorkerPhase.BACKOFF, "killed by signal 9")
    assert shown.running is shown.kv_blocks_used is None, "what it did is not known any more, which is not zero"

    process.phase = WorkerPhase.STARTING
    process.attempts += 1
    serving.come_up()
    assert serving.serving() == {("prefill", 1): 1, ("decode", 1): 2}


def test_one_that_hangs_is_told_apart_from_one_that_died(serving: World) -> None:
    """F28: stopped by SIGSTOP it is there and does not answer; its agent says so, and it takes no requests."""
    process = serving.process("decode-1")
    process.phase, process.reason = WorkerPhase.STOPPING, "did not answer for 10 s; it is replaced"
    serving.report()

    assert serving.worker("decode-1").reason == "did not answer for 10 s; it is replaced"
    assert serving.serving() == {("prefill", 1): 1, ("decode", 1): 1}


def test_a_prefill_worker_that_leaves_is_waited_for_until_its_kv_was_fetched(serving: World) -> None:
    """F09: held KV is a hand-off that is not over; only its node says when it is."""
    serving.resize("prefill", 2)
    serving.come_up()
    operation = serving.resize("prefill", 1).operation
    leaving = next(name for name, desired in serving.wanted().items() if desired == "drain")
    serving.process(leaving).load = WorkerLoad(
        running=0, waiting=0, waiting_tokens=0, kv_blocks_used=9, kv_blocks_total=100, handoffs=1
    )
    serving.report()

    assert operation is not None
    assert serving.steps(operation) == [f"{leaving} is draining: 1 hand-off left"]
    assert serving.operation(operation).state == OperationState.RUNNING
    serving.finish_drains()
    assert serving.operation(operation).state == OperationState.SUCCEEDED


def test_deleting_drains_too(serving: World) -> None:
    """F09: nobody is cut off because a model is deleted."""
    serving.delete()

    assert serving.serving() == {}, "new work stops at once"
    serving.report()
    assert set(serving.phases().values()) == {"draining"}


def test_levels_of_a_removed_worker_vanish_from_the_sums(serving: World) -> None:
    """F37: nobody tells them any more, so they are out after the span that a level stands for."""
    pool = str(serving.pool("decode").pk)
    live = Live()
    for second, workers in ((100, ("decode-1", "decode-2")), (100 + GAUGE_SPAN_S, ("decode-1",))):
        for number, name in enumerate(workers):
            window = Window(second=second, source=f"worker:{name}", deployment="m", pool_id=pool, role=Role.DECODE)
            window.gauges[Gauge.RUNNING] = 2
            live.add(StreamId(second * 1000, number), window)

    def running(second: int) -> float | None:
        return live.frame(second).deployments[0].pools[0].running

    assert (running(100), running(100 + GAUGE_SPAN_S)) == (4, 2)
