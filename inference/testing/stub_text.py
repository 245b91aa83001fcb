"""Turns the stub engine's token pieces into text: whole characters only, nothing of a stop string."""

from __future__ import annotations

import codecs


class AnswerText:
    """Text of one answer, fed piece by piece.

    Bytes that do not end a character, and text that may become a stop string, are held back until they are decided.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = stops
        self._held = ""

    def feed(self, piece: bytes) -> tuple[str, bool]:
        """Text that became certain with `piece`, and whether a stop string was met."""
        self._held += self._decoder.decode(piece)
        starts = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if starts:
            text, self._held = self._held[: min(starts)], ""
            return text, True
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        text, self._held = self._held[:cut], self._held[cut:]
        return text, False

    def flush(self) -> str:
        """What is still held back when the answer ends; half a character becomes U+FFFD."""
        text, self._held = self._held + self._decoder.decode(b"", final=True), ""
        return text


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-n:])), 0)
