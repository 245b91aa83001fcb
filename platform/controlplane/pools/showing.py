"""How often consoles are told that the workers of a deployment changed.

Each view is of the whole deployment, and in a large one some load changes all the time. So news wait until the
deployment's turn: the larger it is, the less often it has one; and news that decide nothing wait the longer, the more
workers there are in all. What waits is shown with the reports that come next, which is never long.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

#: Workers whose views are sent in a second, at most: of all deployments while nothing is decided, else of each.
WORKERS_PER_S = 200

_SOONEST_S = 1.0

#: A pause that nobody would notice is none.
_UNNOTICED_S = 0.1


class Turns:
    """One for each process that writes reports, shared by its threads. Losing it costs a view that is a little old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[int, datetime] = {}
        self._waiting: set[int] = set()
        self._urgent: set[int] = set()

    def due(
        self, changed: Collection[int], sizes: Mapping[int, int], now: datetime, *, decisive: Collection[int] = ()
    ) -> set[int]:
        """Of the deployments that changed, now or since they were last shown, those whose turn it is.

        sizes: number of workers by deployment; one that is not named is gone. decisive: those whose news people wait
        for.
        """
        with self._lock:
            self._waiting = (self._waiting | set(changed) | set(decisive)) & set(sizes)
            self._urgent = (self._urgent | set(decisive)) & set(sizes)
            calm_s = max(_SOONEST_S, sum(sizes.values()) / WORKERS_PER_S)
            pauses = {each: _urgent_s(sizes[each]) if each in self._urgent else calm_s for each in self._waiting}
            due = {each for each, pause_s in pauses.items() if self._is_due(each, pause_s, now)}
            self._waiting -= due
            self._urgent -= due
            self._shown = {each: at for each, at in self._shown.items() if each in sizes} | dict.fromkeys(due, now)
            return due

    def _is_due(self, deployment: int, pause_s: float, now: datetime) -> bool:
        """A moment that lies ahead was read before our clock went back."""
        last = self._shown.get(deployment)
        return last is None or not timedelta(0) <= now - last < timedelta(seconds=pause_s)


def _urgent_s(workers: int) -> float:
    pause_s = workers / WORKERS_PER_S
    return pause_s if pause_s > _UNNOTICED_S else 0.0
