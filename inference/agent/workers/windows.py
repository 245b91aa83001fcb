"""Carries the workers' one-second windows to the capped Redis stream, stamped with this node's clock.

Best effort by intention: while Redis or a worker is away the seconds are missing, and a missing second is shown as
missing. Nothing is kept to be sent later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

import msgspec
import redis.asyncio
import structlog
from redis.exceptions import RedisError

from inference.agent.workers.client import NoAnswer, WorkerClient
from inference.contracts import names
from inference.contracts.codec import encode
from inference.contracts.reports import Address
from inference.contracts.timings import Window

log = structlog.get_logger()


class WindowCarrier:
    """ready: the workers to collect from, asked anew each round. clock: unix seconds of this machine."""

    def __init__(
        self,
        *,
        client: WorkerClient,
        stream: redis.asyncio.Redis,
        ready: Callable[[], Mapping[str, Address]],
        interval_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._stream = stream
        self._ready = ready
        self._interval_s = interval_s
        self._clock = clock
        self._carrying: dict[str, asyncio.Task[None]] = {}
        self._interrupted = False

    async def run(self) -> None:
        """Carry until cancelled. A worker that is slow to answer delays no other and is not asked twice at a time."""
        try:
            while True:
                for worker_id, worker in self._ready().items():
                    if worker_id not in self._carrying:
                        self._carrying[worker_id] = asyncio.create_task(self._carry(worker_id, worker))
                await asyncio.sleep(self._interval_s)
        finally:
            tasks = list(self._carrying.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, worker_id: str, worker: Address) -> None:
        try:
            await self._carry_once(worker)
        finally:
            del self._carrying[worker_id]

    async def _carry_once(self, worker: Address) -> None:
        try:
            windows = stamp(await self._client.windows(worker), int(self._clock()))
        except NoAnswer:
            return  # the probe notices a worker that does not answer
        if not windows:
            return
        try:
            async with self._stream.pipeline(transaction=False) as pipeline:
                for window in windows:
                    pipeline.xadd(
                        names.WINDOW_STREAM,
                        {names.STREAM_FIELD: encode(window)},
                        maxlen=names.WINDOW_STREAM_MAXLEN,
                        approximate=True,
                    )
                await pipeline.execute()
        except (RedisError, OSError) as error:
            if not self._interrupted:
                log.warning("windows are lost until Redis takes them again", error=str(error))
            self._interrupted = True
            return
        self._interrupted = False


def stamp(windows: tuple[Window, ...], now: int) -> tuple[Window, ...]:
    """Windows whose `second` counts back from `now` (0, -1, ...), with the unix second in its place."""
    return tuple(msgspec.structs.replace(window, second=now + window.second) for window in windows)
