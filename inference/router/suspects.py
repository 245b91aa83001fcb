"""Workers that failed a moment ago: used only when there is no other, and forgiven after a while.

This is no circuit breaker: a suspect is never shut out, so a wrong suspicion can't take a healthy fleet down.
Refusals of bad requests and busy answers are no faults and never come here.
"""

from __future__ import annotations

from inference.router.load import WorkerKey


class Suspects:
    """suspect_s: seconds a suspicion lasts. Times are readings of one monotonic clock."""

    def __init__(self, suspect_s: float) -> None:
        self._suspect_s = suspect_s
        self._until: dict[WorkerKey, float] = {}

    def add(self, worker: WorkerKey, now: float) -> None:
        self._until[worker] = now + self._suspect_s

    def at(self, now: float) -> frozenset[WorkerKey]:
        self._until = {worker: until for worker, until in self._until.items() if until > now}
        return frozenset(self._until)
