"""Tasks that outlive the call that started them: how they are kept, restarted and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import structlog

T = TypeVar("T")

_CANCEL_AGAIN_S = 0.1
_RESTART_PAUSE_S = 1.0
_log = structlog.get_logger()


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel `tasks` until they are done.

    Once is not enough for tasks that use the Redis client: it writes through `asyncio.wait_for`, which before Python
    3.12 loses a cancellation that arrives together with the result (CPython issue 86296).
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=_CANCEL_AGAIN_S)


async def keep_running(job: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `job`, which never ends by itself; when a bug ends it, say so and start it again."""
    while True:
        try:
            await job()
        except Exception:
            _log.exception("a background job broke and is started again", job=repr(job))
        await asyncio.sleep(_RESTART_PAUSE_S)


class Background:
    """Keeps its tasks referenced until they end, and ends them all in `close`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, job: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, within_s: float) -> None:
        """Give the tasks `within_s` seconds to finish, then cancel what is left."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(set(self._tasks), timeout=within_s)
        await end(late)
