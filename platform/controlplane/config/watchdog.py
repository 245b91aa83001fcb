"""The control worker's look at its own queue, as a step of the Celery worker (see `inference.broker.watchdog`)."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import Any, ClassVar

from celery import bootsteps
from django.conf import settings

from controlplane.core.redis import async_client
from inference.broker.watchdog import EXIT_START_AGAIN, watch
from inference.contracts.names import CONTROL_QUEUE


class QueueWatch(bootsteps.StartStopStep):
    """Ends the process when messages wait and it takes none. Whoever keeps it running starts it anew; the sweep does
    again what a task under way left undone."""

    requires: ClassVar[Any] = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._watching = self._loop.create_task(_watch(worker))
        threading.Thread(target=self._run, name="queue watch", daemon=True).start()

    def stop(self, worker: Any) -> None:
        self._loop.call_soon_threadsafe(self._watching.cancel)

    terminate = stop

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._watching)


async def _watch(worker: Any) -> None:
    await watch(
        broker=async_client(),
        queue=CONTROL_QUEUE,
        # The consumer is there before this step starts, and outlives its connections.
        taken=lambda: worker.consumer.taken,
        limit_s=settings.WATCHDOG_S,
        on_stalled=_start_again,
    )


def _start_again() -> None:
    """Leave at once: a consumer in this state may also not end when asked to."""
    os._exit(EXIT_START_AGAIN)
