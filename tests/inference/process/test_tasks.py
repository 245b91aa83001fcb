"""Background tasks end for sure, and go on when a bug breaks them."""

from __future__ import annotations

import asyncio

import pytest

from inference.process import tasks
from inference.process.tasks import Background, end, keep_running


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    """As `asyncio.wait_for` does before Python 3.12 (CPython issue 86296)."""
    lost = 0

    async def deaf() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 2:
                    raise

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end([task])
    assert task.cancelled()


async def test_a_job_that_breaks_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_RESTART_PAUSE_S", 0.0)
    runs = 0
    third = asyncio.Event()

    async def job() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RuntimeError("a bug")
        third.set()
        await asyncio.sleep(60)

    running = asyncio.create_task(keep_running(job))
    async with asyncio.timeout(5):
        await third.wait()
    await end([running])
    assert runs == 3


async def test_closing_waits_for_jobs_and_cuts_what_hangs() -> None:
    background = Background()
    done = background.start(asyncio.sleep(0.01, result="done"))
    hanging = background.start(asyncio.sleep(60))
    await background.close(0.1)
    assert done.result() == "done"
    assert hanging.cancelled()
