"""What was counted within the last minute: requests, or tokens."""

from __future__ import annotations

from itertools import accumulate, takewhile

WINDOW_S = 60.0


class Entry:
    """So much, at that time. An amount can be put right later; what has left the minute has left it as it was."""

    __slots__ = ("amount", "at")

    def __init__(self, amount: int, at: float) -> None:
        self.amount = amount
        self.at = at


class Minute:
    """A sliding minute. Times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._entries: dict[Entry, None] = {}  # in the order of their times; a dict, since any of them may go
        self._total = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def total(self) -> int:
        """As of the last `drop_old`."""
        return self._total

    def add(self, amount: int, now: float) -> Entry:
        entry = Entry(amount, now)
        if amount:
            self._entries[entry] = None
            self._total += amount
        return entry

    def correct(self, entry: Entry, amount: int) -> None:
        """It was `amount`, which at 0 leaves nothing to remember."""
        if entry not in self._entries:
            return
        self._total += amount - entry.amount
        entry.amount = amount
        if not amount:
            del self._entries[entry]

    def drop_old(self, now: float) -> None:
        for entry in list(takewhile(lambda entry: entry.at <= now - WINDOW_S, self._entries)):
            self._total -= entry.amount
            del self._entries[entry]

    def room_in_s(self, amount: int, limit: int, now: float) -> float:
        """Seconds until `amount`, which is at most `limit`, fits beside what is left of the minute then; 0: now."""
        surplus = self._total + amount - limit
        if surplus <= 0:
            return 0.0
        amounts = accumulate(entry.amount for entry in self._entries)
        decisive = next(entry for entry, gone in zip(self._entries, amounts, strict=True) if gone >= surplus)
        return decisive.at + WINDOW_S - now

    def empty_in_s(self, now: float) -> float:
        newest = next(reversed(self._entries), None)
        return 0.0 if newest is None else newest.at + WINDOW_S - now
