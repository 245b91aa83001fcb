"""A thread that does one thing again and again, through outages, until it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

import redis
import structlog
from django.db import Error, close_old_connections, connections

log = structlog.get_logger()

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 2.0


class Loop(threading.Thread):
    """Calls `turn`, then waits for as long as `pause_s` says.

    After an outage of Redis or the database it tries again, with pauses that grow. Any other error is a bug: it ends
    the thread, and whoever watches over the process starts it afresh.
    """

    def __init__(
        self, name: str, turn: Callable[[], None], pause_s: Callable[[], float], stopping: threading.Event
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._turn = turn
        self._pause_s = pause_s
        self._stopping = stopping
        self._interrupted = False

    def run(self) -> None:
        pause = 0.0
        outage_pause = FIRST_PAUSE_S
        try:
            while not self._stopping.wait(pause):
                if self._survives():
                    pause, outage_pause = self._pause_s(), FIRST_PAUSE_S
                else:
                    pause, outage_pause = outage_pause, min(outage_pause * 2, LONGEST_PAUSE_S)
        finally:
            connections.close_all()

    def _survives(self) -> bool:
        """One turn; False when it met an outage."""
        close_old_connections()
        try:
            self._turn()
        except (redis.RedisError, Error) as error:
            if not self._interrupted:
                log.warning("interrupted; it will be tried until it works", loop=self.name, error=str(error))
            self._interrupted = True
            return False
        if self._interrupted:
            log.info("works again", loop=self.name)
        self._interrupted = False
        return True
