"""Holds back text that might still become a stop string, so that no part of one ever reaches a client."""

from __future__ import annotations

from inference.contracts.errors import ErrorCode, TandemError


class StopFilter:
    """Passes text through until the first of `stops` occurs in it, however it is cut into pieces.

    Raises:
        TandemError(INVALID_REQUEST): a stop string is empty (it would match everywhere).
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        if "" in stops:
            raise TandemError(ErrorCode.INVALID_REQUEST, "a stop string may not be empty", "stop")
        self._stops = stops
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """The text that is certain now, and whether a stop string has occurred (nothing may be pushed after that)."""
        seen = self._held + text
        matches = [at for stop in self._stops if (at := seen.find(stop)) >= 0]
        if matches:
            self._held = ""
            return seen[: min(matches)], True
        certain = len(seen) - self._undecided(seen)
        self._held = seen[certain:]
        return seen[:certain], False

    def flush(self) -> str:
        """What was held back, once nothing more will come."""
        rest, self._held = self._held, ""
        return rest

    def _undecided(self, seen: str) -> int:
        """Length of the longest end of `seen` with which a stop string begins."""
        longest = max((len(stop) for stop in self._stops), default=0)
        for length in range(min(longest - 1, len(seen)), 0, -1):
            if any(stop.startswith(seen[-length:]) for stop in self._stops):
                return length
        return 0
