"""Requests that wait while every worker is busy."""

from __future__ import annotations

import asyncio

import pytest

from inference.router.admission.fair_order import Claim
from inference.router.admission.fair_queue import Patience, WaitingRoom
from inference.router.errors import ApiError


class Waiting:
    """Claims that wait in one room, and the order in which they were called."""

    def __init__(self, most: int = 100, longest_s: float = 60.0) -> None:
        self.room = WaitingRoom(most, longest_s, 2)
        self.called: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def sit(self, name: str, key: str, *, rank: int = 0, tokens: int = 1) -> asyncio.Task[None]:
        async def wait() -> None:
            await self.room.wait(Claim(key, rank, tokens), Patience())
            self.called.append(name)

        task = asyncio.create_task(wait())
        self.tasks.append(task)
        await asyncio.sleep(0)
        return task

    async def call(self, times: int = 1) -> None:
        for _ in range(times):
            self.room.has_room()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


async def test_a_key_with_many_requests_does_not_hold_up_another() -> None:
    waiting = Waiting()
    for number in range(6):
        await waiting.sit(f"many-{number}", "many", tokens=100)
    await waiting.sit("few-0", "few", tokens=100)
    await waiting.sit("few-1", "few", tokens=100)
    await waiting.call(8)
    assert waiting.called[:4] in (["many-0", "few-0", "many-1", "few-1"], ["few-0", "many-0", "few-1", "many-1"])
    assert waiting.called[4:] == ["many-2", "many-3", "many-4", "many-5"]


async def test_long_requests_count_for_more_than_short_ones() -> None:
    waiting = Waiting()
    for number in range(3):
        await waiting.sit(f"long-{number}", "long", tokens=300)
    for number in range(6):
        await waiting.sit(f"short-{number}", "short", tokens=100)
    await waiting.call(9)
    assert waiting.called.index("long-1") > waiting.called.index("short-2")
    assert waiting.called.index("short-3") < waiting.called.index("long-2")


async def test_a_class_of_smaller_number_goes_first() -> None:
    waiting = Waiting()
    await waiting.sit("later", "a", rank=1)
    await waiting.sit("sooner", "a", rank=0)
    await waiting.call(2)
    assert waiting.called == ["sooner", "later"]


async def test_within_a_class_nobody_starves() -> None:
    """A key that asks again and again, with short requests, lets a long one of another key by."""
    waiting = Waiting()
    await waiting.sit("long", "patient", tokens=500)
    for number in range(20):
        await waiting.sit(f"short-{number}", "greedy", tokens=100)
        await waiting.call()
    assert "long" in waiting.called[:6]


async def test_who_tries_in_vain_keeps_his_place() -> None:
    waiting = Waiting()
    patience = Patience()
    first = asyncio.create_task(waiting.room.wait(Claim("a"), patience))
    await asyncio.sleep(0)
    await waiting.sit("second", "b")
    await waiting.call()
    await first
    again = asyncio.create_task(waiting.room.wait(Claim("a"), patience))
    await asyncio.sleep(0)
    await waiting.call()
    await again
    assert waiting.called == []
    await waiting.call()
    assert waiting.called == ["second"]


async def test_who_leaves_unserved_costs_his_key_no_turn() -> None:
    """Else a key whose requests time out, or whose clients leave, would wait behind all others for as many turns."""
    waiting = Waiting()
    for number in range(50):
        leaving = await waiting.sit(f"gone-{number}", "unlucky", tokens=100)
        leaving.cancel()
        await asyncio.wait({leaving})
    await waiting.sit("unlucky", "unlucky", tokens=100)
    for number in range(3):
        await waiting.sit(f"other-{number}", "other", tokens=100)
    await waiting.call(4)
    assert waiting.called[0] == "unlucky"


async def test_who_was_called_in_vain_and_leaves_costs_his_key_no_turn_either() -> None:
    waiting = Waiting()
    patience = Patience()
    claim = Claim("unlucky", tokens=1000)
    first = asyncio.create_task(waiting.room.wait(claim, patience))
    await asyncio.sleep(0)
    await waiting.call()
    await first
    again = asyncio.create_task(waiting.room.wait(claim, patience))
    await asyncio.sleep(0)
    again.cancel()
    await asyncio.wait({again})
    for name, key in (("other-0", "other"), ("unlucky", "unlucky"), ("other-1", "other")):
        await waiting.sit(name, key, tokens=100)
    await waiting.call(3)
    assert waiting.called == ["other-0", "unlucky", "other-1"]


async def test_only_so_many_may_wait_and_of_one_key_half_of_them() -> None:
    waiting = Waiting(most=4)
    await waiting.sit("1", "a")
    await waiting.sit("2", "a")
    too_many = await waiting.sit("3", "a")
    with pytest.raises(ApiError) as of_key:
        await too_many
    assert (of_key.value.status, of_key.value.code) == (429, "too_many_waiting")
    await waiting.sit("4", "b")
    await waiting.sit("5", "c")
    full = await waiting.sit("6", "d")
    with pytest.raises(ApiError) as of_room:
        await full
    assert (of_room.value.status, of_room.value.retry_after_s) == (503, 2)
    await waiting.call(9)
    assert len(waiting.called) == 4
    assert len(waiting.room) == 0


async def test_nobody_waits_for_ever_and_who_leaves_is_not_called() -> None:
    waiting = Waiting(longest_s=0.01)
    late = await waiting.sit("late", "a")
    with pytest.raises(ApiError) as refused:
        await late
    assert refused.value.status == 503
    patient = Waiting()
    leaving = await patient.sit("leaving", "a")
    await patient.sit("staying", "a")
    leaving.cancel()
    await asyncio.sleep(0)
    await patient.call()
    assert patient.called == ["staying"]


async def test_the_call_of_one_who_leaves_at_that_moment_is_for_the_next() -> None:
    waiting = Waiting()
    leaving = await waiting.sit("leaving", "a")
    await waiting.sit("staying", "a")
    waiting.room.has_room()
    leaving.cancel()
    for _ in range(4):
        await asyncio.sleep(0)
    assert waiting.called == ["staying"]


async def test_the_advice_follows_from_who_waits_and_how_quickly_room_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = Waiting()
    assert waiting.room.advice_s == 2
    now = 100.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    for _ in range(3):
        waiting.room.freed()
        now += 2.5
    assert waiting.room.advice_s == 3
    for number in range(5):
        await waiting.sit(str(number), f"k{number}")
    assert waiting.room.advice_s == 15
    for task in waiting.tasks:
        task.cancel()
