from __future__ import annotations

import asyncio

import pytest

from inference.router.load import LiveRequests, Load, Place
from inference.router.suspects import Suspects

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


def test_suspicion_ends_by_itself_and_is_renewed_by_a_new_failure() -> None:
    suspects = Suspects(5.0)
    suspects.add(A, 100.0)
    assert suspects.at(104.9) == {A}
    suspects.add(A, 104.0)
    assert suspects.at(108.9) == {A}
    assert suspects.at(109.0) == frozenset()
