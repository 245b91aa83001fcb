from __future__ import annotations

import asyncio
from pathlib import Path

import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from inference.broker.watchdog import Look, Suspicion, watch
from inference.testing.valkey import ValkeyServer


def folded(*looks: tuple[float, int | None, int]) -> Suspicion:
    suspicion = Suspicion()
    for at, waiting, taken in looks:
        suspicion = suspicion.after(Look(at, waiting, taken))
    return suspicion


def test_messages_that_wait_while_none_is_taken_are_a_stall() -> None:
    suspicion = folded((0, 1, 5), (5, 2, 5), (10, 3, 5))
    assert not suspicion.confirmed(9.9, 10)
    assert suspicion.confirmed(10, 10)


def test_a_queue_that_moves_on_is_no_stall_however_long_it_is() -> None:
    assert not folded((0, 90, 5), (5, 90, 6), (10, 90, 7)).confirmed(10, 10)


def test_an_empty_queue_clears_the_suspicion() -> None:
    assert not folded((0, 1, 5), (5, 0, 5), (10, 1, 5)).confirmed(10, 10)


def test_a_queue_that_cannot_be_seen_is_not_taken_for_a_full_one() -> None:
    assert not folded((0, 1, 5), (5, None, 5), (10, 1, 5)).confirmed(10, 10)


@given(st.lists(st.tuples(st.sampled_from([None, 0, 1, 7]), st.integers(0, 1)), max_size=30))
def test_a_stall_is_confirmed_only_if_every_look_back_to_the_limit_saw_it(steps: list[tuple[int | None, int]]) -> None:
    limit, suspicion, taken = 5, Suspicion(), 0
    looks = []
    for at, (waiting, step) in enumerate(steps):
        taken += step
        looks.append(Look(at, waiting, taken))
        suspicion = suspicion.after(looks[-1])
        window = looks[-limit - 1 :]
        stalled = len(window) == limit + 1 and all(look.waiting and look.taken == taken for look in window)
        assert suspicion.confirmed(at, limit) == stalled


async def test_the_watch_sees_the_real_queue_and_survives_its_absence(tmp_path: Path) -> None:
    stalled = asyncio.Event()
    with ValkeyServer(tmp_path) as server:
        async with redis.asyncio.Redis.from_url(server.url) as client:
            watching = asyncio.create_task(
                watch(broker=client, queue="node.n", taken=lambda: 0, limit_s=0.2, on_stalled=stalled.set)
            )
            server.kill()
            await asyncio.sleep(0.5)
            assert not stalled.is_set()
            server.start()
            await client.lpush("node.n", "spec")
            await asyncio.wait_for(stalled.wait(), 20)
            watching.cancel()
