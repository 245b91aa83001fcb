from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from inference.contracts import codec, names
from inference.contracts.errors import ErrorCode
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Gauge, Latency, Window
from inference.router.telling.metrics import Metrics
from inference.router.telling.windows import Telemetry
from inference.router.travel.outcome import Outcome
from inference.router.web.sse import ClientGone
from tests.inference.router.conftest import LONG, SHORT, Bench, eventually
from tests.inference.router.scripted import PIECES, Misstep


def merged(windows: list[Window]) -> Window:
    whole = Window(second=0, source="", deployment="chat")
    for window in windows:
        whole.absorb(window)
    return whole


def of_requests(bench: Bench) -> list[Window]:
    return [window for window in bench.windows() if window.pool_id is None and window.revision is None]


def of_revision(bench: Bench, revision: int) -> Window:
    return merged([window for window in bench.windows() if window.revision == revision])


async def settled(bench: Bench, received: int) -> Window:
    await eventually(lambda: merged(of_requests(bench)).counters.get(Counter.RECEIVED, 0) >= received)
    await asyncio.sleep(0.25)
    return merged(of_requests(bench))


async def test_an_idle_deployment_says_so_every_window(bench: Bench) -> None:
    await bench.start()
    await eventually(lambda: len(bench.windows()) >= 3)
    for window in bench.windows():
        assert (window.deployment, window.source) == ("chat", "router:r1")
        assert window.gauges == {Gauge.IN_FLIGHT: 0}
        assert not window.counters
        assert not window.latencies
        assert window.pool_id is None
        assert window.role is None


async def test_in_flight_is_the_level_at_the_end_of_the_window(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.pace_s = 0.1
    await bench.start()
    asking = [asyncio.create_task(bench.chat(LONG)) for _ in range(3)]
    await eventually(lambda: any(window.gauges.get(Gauge.IN_FLIGHT) == 3 for window in bench.windows()))
    await asyncio.gather(*asking)


async def test_each_pool_gets_the_latencies_that_it_decides(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    await bench.chat(LONG)
    await bench.chat(SHORT)
    await settled(bench, 2)
    totals = {
        role: {
            latency: histogram.total
            for latency, histogram in merged([w for w in bench.windows() if w.role is role]).latencies.items()
        }
        for role in (Role.PREFILL, Role.DECODE)
    }
    after_first = len(PIECES) - 1
    assert totals[Role.PREFILL] == {Latency.TTFT: 1}
    assert totals[Role.DECODE] == {
        Latency.TTFT: 1,
        Latency.TPOT: 2,
        Latency.FIRST_GAP: 2,
        Latency.ITL: 2 * after_first,
    }
    of_pools = [window for window in bench.windows() if window.pool_id is not None]
    assert all(not window.counters and not window.gauges for window in of_pools)


async def test_requests_are_counted_by_outcome_and_measured(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    await bench.chat(LONG)
    await bench.stream(SHORT)
    await bench.chat(LONG, max_tokens=1)
    await bench.chat("x" * 2000)
    decode.missteps["generate"] = Misstep("fail", ErrorCode.ENGINE_FAILED, after=2)
    await bench.chat(SHORT)
    whole = await settled(bench, 5)
    tokens = 2 * len(PIECES) + 1
    assert whole.counters == {
        Counter.RECEIVED: 5,
        Counter.COMPLETED: 3,
        Counter.REJECTED: 1,
        Counter.FAILED: 1,
        Counter.PROMPT_TOKENS: 2 * len(LONG) + len(SHORT),
        Counter.OUTPUT_TOKENS: tokens + 2,
    }
    totals = {latency: histogram.total for latency, histogram in whole.latencies.items()}
    assert totals == {
        Latency.TTFT: 4,
        Latency.TPOT: 2,
        Latency.ITL: tokens - 3 + 1,
        Latency.FIRST_GAP: 3,
        Latency.E2E: 3,
    }


async def test_each_revision_gets_what_its_workers_did_also_what_was_then_answered_elsewhere(bench: Bench) -> None:
    """What a roll-out is judged by: here clients see no error, although the new revision fails every request."""
    bench.worker(Role.UNIFIED, revision=1)
    bad = bench.worker(Role.UNIFIED, revision=2)
    bad.missteps["reserve"] = Misstep("refuse", ErrorCode.ENGINE_FAILED)
    await bench.start(suspect_s=0.0)
    for number in range(16):  # conversations of their own, so that some begin at the new one
        assert (await bench.chat(f"{number} {SHORT}"))[0] == 200
    whole = await settled(bench, 16)
    old, new = of_revision(bench, 1), of_revision(bench, 2)

    assert (whole.counters[Counter.COMPLETED], whole.counters.get(Counter.FAILED)) == (16, None)
    assert old.counters == {Counter.COMPLETED: 16}
    assert new.counters == {Counter.FAILED: whole.counters[Counter.RETRIED]}
    assert {latency: histogram.total for latency, histogram in old.latencies.items()} == {
        Latency.TTFT: 16,
        Latency.TPOT: 16,
    }
    assert not new.latencies


async def test_retries_are_counted(bench: Bench) -> None:
    workers = [bench.worker(Role.UNIFIED), bench.worker(Role.UNIFIED)]
    workers[0].missteps["reserve"] = workers[1].missteps["reserve"] = Misstep("crash", times=1)
    await bench.start()
    await bench.chat(SHORT)
    whole = await settled(bench, 1)
    assert whole.counters[Counter.RETRIED] == 1
    assert whole.counters[Counter.COMPLETED] == 1


@pytest.fixture
async def away() -> AsyncIterator[redis.asyncio.Redis]:
    """A client of a server that is not there."""
    client = redis.asyncio.Redis(port=1, socket_timeout=0.1, socket_connect_timeout=0.1)
    yield client
    await client.aclose()


async def test_windows_are_kept_in_bounds_while_redis_is_away(away: redis.asyncio.Redis) -> None:
    telemetry = Telemetry(away, "r", 0.005, lambda: {"a": 1, "b": 0})
    tasks = [asyncio.create_task(telemetry.run_clock()), asyncio.create_task(telemetry.run_sender())]
    await asyncio.sleep(0.2)
    assert 2 < telemetry.unsent <= 600
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_closed_window_is_not_touched_again(away: redis.asyncio.Redis) -> None:
    telemetry = Telemetry(away, "r", 1.0, dict)
    telemetry.window("a").count(Counter.RECEIVED)
    (closed,) = telemetry.close_windows(7)
    telemetry.window("a").count(Counter.RECEIVED)
    assert (closed.second, closed.counters[Counter.RECEIVED]) == (7, 1)
    assert telemetry.close_windows(8)[0].counters[Counter.RECEIVED] == 1
    assert telemetry.close_windows(9) == []
    assert codec.decode(codec.encode(closed), Window) == closed


async def test_a_client_that_leaves_when_its_answer_is_there_already_is_counted_once(
    away: redis.asyncio.Redis, bench: Bench
) -> None:
    telemetry = Telemetry(away, "r", 1.0, dict)
    outcome = Outcome(telemetry, Metrics(dict, dict, lambda: None, dict), "r", "chat", 0.0)
    outcome.completed(3, bench.worker(Role.UNIFIED).route)
    with pytest.raises(ClientGone), outcome.closing():
        raise ClientGone("gone")
    outcome.fail()
    by_revision = {window.revision: window.counters for window in telemetry.close_windows(7)}
    assert by_revision == {
        None: {Counter.RECEIVED: 1, Counter.COMPLETED: 1, Counter.PROMPT_TOKENS: 3},
        1: {Counter.COMPLETED: 1},
    }


async def test_the_stream_is_capped(bench: Bench) -> None:
    await bench.start()
    await eventually(lambda: len(bench.windows()) >= 1)
    assert bench.redis.xlen(names.WINDOW_STREAM) <= names.WINDOW_STREAM_MAXLEN
