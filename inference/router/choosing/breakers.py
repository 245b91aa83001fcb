"""Circuit breakers of workers and of prefill-decode pairs.

closed     used as any other
open       after a fault: used only where there is no other; for a while, twice as long after each further fault
half open  when that is over: one request tries it, while others still avoid it; its outcome closes or opens it

An open breaker never shuts a worker out for good, so a wrong one can't take a healthy fleet down: when all are open,
all are used. Refusals of bad requests and busy answers are no faults and never come here (F16).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Open:
    """faults: in a row. until: when it is tried again. tried_until: while another request tries it."""

    faults: int
    until: float
    tried_until: float = 0.0


class Breakers(Generic[K]):
    """cool_s: how long the first fault opens one. most_s: the longest. try_s: how long the outcome of a trial is waited
    for. Times are of one monotonic clock, in seconds."""

    def __init__(self, cool_s: float, most_s: float, try_s: float) -> None:
        self._cool_s = cool_s
        self._most_s = most_s
        self._try_s = try_s
        self._open: dict[K, _Open] = {}

    def failed(self, key: K, now: float) -> None:
        """A fault. Of several at the same time, which have one cause, only the first counts."""
        known = self._open.get(key)
        if known is not None and now < known.until:
            return
        faults = 1 if known is None or now >= known.until + self._most_s else known.faults + 1
        cool_s = min(self._most_s, self._cool_s * 2 ** min(faults - 1, 32))
        self._open[key] = _Open(faults, now + cool_s)

    def succeeded(self, key: K) -> None:
        """It did what it is for: the breaker closes."""
        self._open.pop(key, None)

    def avoided(self, now: float) -> frozenset[K]:
        """Those that are open, or half open with a trial under way."""
        if not self._open:
            return frozenset()
        return frozenset(key for key, each in self._open.items() if now < max(each.until, each.tried_until))

    def chosen(self, key: K, now: float) -> None:
        """A request goes there: where the breaker is half open it is the trial."""
        known = self._open.get(key)
        if known is not None and now >= known.until:
            known.tried_until = now + self._try_s

    def told_nothing(self, key: K) -> None:
        """A request that went there ended without an outcome (refused as busy, its client left): the next may try."""
        known = self._open.get(key)
        if known is not None:
            known.tried_until = 0.0

    def forget_all_but(self, there: Callable[[K], bool], now: float) -> None:
        """Drop those of what is gone, and those that nobody tried again for long."""
        self._open = {
            key: each for key, each in self._open.items() if now < each.until + 2 * self._most_s and there(key)
        }
