"""Notices a Celery consumer that is connected and takes nothing while messages wait for it.

After a broker restart a consumer may come back in name only. No repair from inside is reliable, so its process ends
itself with an exit code of its own; whoever keeps it running starts it anew. The workers of an agent, untouched, are
adopted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import redis.asyncio
import structlog
from redis.exceptions import RedisError

log = structlog.get_logger()

#: Exit code: start this process again (EX_TEMPFAIL of sysexits.h).
EXIT_START_AGAIN = 75


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the queue. at: monotonic seconds. waiting: messages in it, None when Redis did not say.
    taken: messages this process has taken since its start."""

    at: float
    waiting: int | None
    taken: int


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Since when messages have waited while none was taken; `since` None is no suspicion."""

    since: float | None = None
    taken: int = 0

    def after(self, look: Look) -> Suspicion:
        """A queue that can't be seen, is empty or moved on clears the suspicion: only what is seen all along counts."""
        if not look.waiting:
            return Suspicion(None, look.taken)
        if self.since is None or look.taken != self.taken:
            return Suspicion(look.at, look.taken)
        return self

    def confirmed(self, now: float, limit_s: float) -> bool:
        return self.since is not None and now - self.since >= limit_s


async def watch(
    *,
    broker: redis.asyncio.Redis,
    queue: str,
    taken: Callable[[], int],
    limit_s: float,
    on_stalled: Callable[[], None],
) -> None:
    """Look ten times per `limit_s`, until cancelled. `on_stalled` is called when the suspicion is confirmed."""
    suspicion = Suspicion()
    while True:
        look = Look(at=time.monotonic(), waiting=await _length(broker, queue), taken=taken())
        suspicion = suspicion.after(look)
        if suspicion.confirmed(look.at, limit_s):
            log.error("the consumer takes nothing", queue=queue, waiting=look.waiting, seconds=limit_s)
            on_stalled()
        await asyncio.sleep(limit_s / 10)


async def _length(broker: redis.asyncio.Redis, queue: str) -> int | None:
    try:
        return int(await broker.llen(queue))
    except (RedisError, OSError):
        return None
