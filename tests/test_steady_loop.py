"""The tests' event loop: standing still makes nobody late, and waiting does."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.steady_loop import ROUND_S, SteadyLoop


def test_a_process_that_stood_still_has_missed_no_deadline() -> None:
    now = 5.0
    loop = SteadyLoop(lambda: now)
    began = loop.time()
    now += 60.0
    assert loop.time() - began == pytest.approx(ROUND_S)
    loop.close()


async def test_the_tests_run_on_it() -> None:
    assert isinstance(asyncio.get_running_loop(), SteadyLoop)
    replied = asyncio.create_task(asyncio.sleep(ROUND_S))
    time.sleep(20 * ROUND_S)  # noqa: ASYNC251 - the process stands still
    async with asyncio.timeout(10 * ROUND_S):
        await replied


async def test_what_does_not_come_is_missed() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.Event().wait()
    assert loop.time() - began >= 0.1
