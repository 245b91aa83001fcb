from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from inference.router.choosing.place import AllStandings, Place
from inference.router.choosing.standing import Standing
from inference.router.travel.live import LiveRequests, Load

A, B = ("a", "1"), ("b", "1")


@pytest.fixture
def standings() -> AllStandings:
    return defaultdict(Standing)


@pytest.fixture
def live(standings: AllStandings) -> LiveRequests:
    return LiveRequests(standings)


def test_load_is_the_sum_over_live_requests(live: LiveRequests) -> None:
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


def test_standings_say_what_a_count_of_all_requests_says(live: LiveRequests, standings: AllStandings) -> None:
    with live.track("chat") as first, live.track("chat") as second:
        for place in (first, second):
            place.move_to(A, 10)
            place.dispatched(12, B, 5)
        first.move_to(B, 7)
        second.first_token_came()
        for key, load in live.loads().items():
            standing = standings[key]
            assert (standing.answers, standing.kv_tokens, standing.backlog_tokens) == (
                load.answers,
                load.kv_tokens,
                load.backlog_tokens,
            )
    assert not any(standing.in_use for standing in standings.values())


def test_a_request_that_breaks_leaves_no_load(live: LiveRequests) -> None:
    def break_off() -> None:
        with live.track("chat") as place:
            place.move_to(A, 10)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert live.loads() == {}
    assert live.in_flight() == {}


async def test_idle_is_when_the_last_request_ended(live: LiveRequests) -> None:
    await live.wait_until_idle()
    with live.track("a"):
        waiting = asyncio.create_task(live.wait_until_idle())
        with live.track("b"):
            assert live.in_flight() == {"a": 1, "b": 1}
        await asyncio.sleep(0)
        assert not waiting.done()
    await waiting


async def test_cutting_requests_short_passes_over_those_whose_time_is_up_already(live: LiveRequests) -> None:
    with live.track("late") as late, live.track("running") as running:
        with pytest.raises(TimeoutError):
            await sleep_within(live, late, 0.0)
        sleeping = asyncio.create_task(sleep_within(live, running, 60.0))
        await asyncio.sleep(0)
        live.cut()
        with pytest.raises(TimeoutError):
            await sleeping


async def sleep_within(live: LiveRequests, place: Place, seconds: float) -> None:
    async with live.within(place, seconds):
        await asyncio.sleep(3600)
