"""What was counted within the last minute: requests, or tokens.

However much it is, few moments are remembered: amounts that come closer together than `RESOLUTION_S` count as one, as
long as the last of them. So what counts is never less than that of any minute, and leaves it at most so much later.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate

WINDOW_S = 60.0
#: Waits are told in whole seconds.
RESOLUTION_S = 0.125


class Moment:
    """So much, from one time to another less than `RESOLUTION_S` after it."""

    __slots__ = ("amount", "began", "ended")

    def __init__(self, amount: int, at: float) -> None:
        self.amount = amount
        self.began = self.ended = at


class Minute:
    """A sliding minute. Times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._moments: deque[Moment] = deque()  # by their times; the newest has an amount
        self._total = 0

    def __len__(self) -> int:
        """Moments that are remembered."""
        return len(self._moments)

    @property
    def total(self) -> int:
        """As of the last `drop_old`."""
        return self._total

    def add(self, amount: int, now: float) -> Moment | None:
        """Where it counts, so that it can be put right later; None: nothing is no amount."""
        if not amount:
            return None
        self._total += amount
        newest = self._moments[-1] if self._moments else None
        if newest is None or now - newest.began >= RESOLUTION_S:
            newest = Moment(amount, now)
            self._moments.append(newest)
        else:
            newest.amount += amount
            newest.ended = now
        return newest

    def correct(self, moment: Moment, was: int, amount: int) -> None:
        """Of what counts there, `was` was really `amount`. What has left the minute has left it as it was."""
        moments = self._moments
        if not moments or moment.ended < moments[0].ended:
            return
        self._total += amount - was
        moment.amount += amount - was
        while moments and not moments[-1].amount:
            moments.pop()

    def drop_old(self, now: float) -> None:
        moments = self._moments
        while moments and moments[0].ended <= now - WINDOW_S:
            self._total -= moments.popleft().amount

    def room_in_s(self, amount: int, limit: int, now: float) -> float:
        """Seconds until `amount`, which is at most `limit`, fits beside what is left of the minute then; 0: now."""
        surplus = self._total + amount - limit
        if surplus <= 0:
            return 0.0
        amounts = accumulate(moment.amount for moment in self._moments)
        decisive = next(moment for moment, gone in zip(self._moments, amounts, strict=True) if gone >= surplus)
        return decisive.ended + WINDOW_S - now

    def empty_in_s(self, now: float) -> float:
        return self._moments[-1].ended + WINDOW_S - now if self._moments else 0.0
