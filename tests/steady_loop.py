"""The event loop of the tests: its clock counts only time in which this process got to run.

Tests of deadlines set short ones. On a busy machine a process may stand still for longer than that; then everything it
was waiting for, a reply of a stand-in in this very process included, would seem to have missed its deadline.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable

#: What one round of the loop counts for at most, in seconds.
ROUND_S = 0.02

_Ready = list[tuple[selectors.SelectorKey, int]]


class _ShortSleeps(selectors.DefaultSelector):
    """Sleeps never longer than a round may count, so that time slept is counted whole."""

    def select(self, timeout: float | None = None) -> _Ready:
        return super().select(ROUND_S if timeout is None else min(timeout, ROUND_S))


class SteadyLoop(asyncio.SelectorEventLoop):
    """Runs timers by a clock that goes on by at most `ROUND_S` between two readings."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read = self._counted = clock()
        super().__init__(_ShortSleeps())

    def time(self) -> float:
        now = self._clock()
        self._counted += min(now - self._read, ROUND_S)
        self._read = now
        return self._counted
