"""How often consoles are told that the loads of a deployment's workers changed.

Each view is of the whole deployment, and in a large one some load changes all the time. So news that decide nothing
wait until the deployment's turn: the larger it is, the less often it has one. What waits is shown with the reports that
come next, which is never long.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

#: Workers whose views are sent in a second, at most, of one deployment.
WORKERS_PER_S = 100

_SOONEST_S = 1.0


class Turns:
    """One for each process that writes reports, shared by its threads. Losing it costs a view that is a little old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[int, datetime] = {}
        self._waiting: set[int] = set()

    def due(self, changed: Collection[int], sizes: Mapping[int, int], now: datetime) -> set[int]:
        """Of the deployments that changed, now or since they were last shown, those whose turn it is.

        sizes: number of workers by deployment; one that is not named is gone.
        """
        with self._lock:
            self._waiting |= set(changed)
            self._waiting &= set(sizes)
            due = {each for each in self._waiting if self._is_due(each, sizes[each], now)}
            self._waiting -= due
            self._shown = {each: at for each, at in self._shown.items() if each in sizes} | dict.fromkeys(due, now)
            return due

    def _is_due(self, deployment: int, workers: int, now: datetime) -> bool:
        """A moment that lies ahead was read before our clock went back."""
        last = self._shown.get(deployment)
        pause = timedelta(seconds=max(_SOONEST_S, workers / WORKERS_PER_S))
        return last is None or not timedelta(0) <= now - last < pause
