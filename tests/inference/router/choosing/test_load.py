from __future__ import annotations

import asyncio

import pytest

from inference.contracts.reports import WorkerLoad
from inference.router.choosing.load import LiveRequests, Load, Place
from inference.router.choosing.standing import Standing

A, B = ("a", "1"), ("b", "1")


def test_load_is_the_sum_over_live_requests() -> None:
    live = LiveRequests()
    with live.track("chat") as first, live.track("chat") as second:
        first.move_to(A, 10)
        second.move_to(A, 20)
        second.dispatched(25, B, 7)
        assert live.loads() == {A: Load(answers=2, kv_tokens=35), B: Load(backlog_tokens=7)}
        second.first_token_came()
        assert live.loads() == {A: Load(answers=2, kv_tokens=35)}
        second.move_to(B, 20)
        assert live.loads() == {A: Load(answers=1, kv_tokens=10), B: Load(answers=1, kv_tokens=20)}
    assert live.loads() == {}


def test_standings_say_what_a_count_of_all_requests_says() -> None:
    live = LiveRequests()
    with live.track("chat") as first, live.track("chat") as second:
        for place in (first, second):
            place.move_to(A, 10)
            place.dispatched(12, B, 5)
        first.move_to(B, 7)
        second.first_token_came()
        for key, load in live.loads().items():
            standing = live.standings[key]
            assert (standing.answers, standing.kv_tokens, standing.backlog_tokens) == (
                load.answers,
                load.kv_tokens,
                load.backlog_tokens,
            )
    assert not any(standing.in_use for standing in live.standings.values())


def test_what_others_have_is_what_the_worker_told_less_what_is_ours() -> None:
    standing = Standing(answers=2, kv_tokens=100, backlog_tokens=30)
    told = WorkerLoad(
        running=4, waiting=1, waiting_tokens=50, kv_blocks_used=20, kv_blocks_total=100, kv_block_tokens=16
    )
    standing.told(told, 1.0)
    assert (standing.others_answers, standing.others_kv_tokens, standing.others_backlog_tokens) == (3, 220, 20)
    assert standing.kv_tokens_total == 1600
    standing.answers, standing.kv_tokens, standing.backlog_tokens = 9, 900, 90
    standing.told(told, 2.0)
    assert (standing.others_answers, standing.others_kv_tokens, standing.others_backlog_tokens) == (0, 0, 0)


def test_a_pace_counts_the_newest_most_and_is_unknown_before() -> None:
    pace = Standing().reading
    assert pace.each_s is None
    pace.add(0.0, 10)
    assert pace.each_s is None
    pace.add(1.0, 100)
    assert pace.each_s == pytest.approx(0.01)
    for _ in range(50):
        pace.add(2.0, 100)
    assert pace.each_s == pytest.approx(0.02, rel=0.01)


def test_workers_that_are_gone_are_forgotten_once_no_request_is_there() -> None:
    live = LiveRequests()
    with live.track("chat") as place:
        place.move_to(A, 10)
        live.standings[B].told(
            WorkerLoad(running=0, waiting=0, waiting_tokens=0, kv_blocks_used=0, kv_blocks_total=1), 0
        )
        live.forget_all_but(())
        assert list(live.standings) == [A]
    live.forget_all_but(())
    assert not live.standings


def test_a_request_that_breaks_leaves_no_load() -> None:
    live = LiveRequests()

    def break_off() -> None:
        with live.track("chat") as place:
            place.move_to(A, 10)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert live.loads() == {}
    assert live.in_flight() == {}


async def test_idle_is_when_the_last_request_ended() -> None:
    live = LiveRequests()
    await live.wait_until_idle()
    with live.track("a"):
        waiting = asyncio.create_task(live.wait_until_idle())
        with live.track("b"):
            assert live.in_flight() == {"a": 1, "b": 1}
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_cutting_requests_short_passes_over_those_whose_time_is_up_already() -> None:
    live = LiveRequests()
    with live.track("late") as late, live.track("running") as running:
        with pytest.raises(TimeoutError):
            await sleep_within(late, 0.0)
        sleeping = asyncio.create_task(sleep_within(running, 60.0))
        await asyncio.sleep(0)
        live.cut()
        with pytest.raises(TimeoutError):
            await sleeping


async def sleep_within(place: Place, seconds: float) -> None:
    async with asyncio.timeout(seconds) as place.deadline:
        await asyncio.sleep(3600)
