"""Positions in a Redis stream: "<milliseconds>-<n>", where the milliseconds are the Redis server's time of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class StreamId(NamedTuple):
    """Ordered as Redis orders them."""

    ms: int
    n: int

    @classmethod
    def parse(cls, text: str | bytes) -> StreamId:
        """
        Raises:
            ValueError: `text` is no stream id.
        """
        text = text.decode() if isinstance(text, bytes) else text
        ms, dash, n = text.partition("-")
        if not (dash and ms.isdecimal() and n.isdecimal()):
            raise ValueError(f"{text!r} is no stream id; one looks like 1700000000000-0")
        return cls(int(ms), int(n))

    def __str__(self) -> str:
        return f"{self.ms}-{self.n}"


#: Before the first entry of any stream.
BEGINNING = StreamId(0, 0)


def last_id(info: Mapping[str, Any]) -> StreamId:
    """The newest id ever given, from the answer of XINFO STREAM (trimming does not lower it; losing the data does)."""
    return StreamId.parse(info["last-generated-id"])


def first_id(info: Mapping[str, Any]) -> StreamId | None:
    """The oldest entry still there, from the answer of XINFO STREAM."""
    entry = info["first-entry"]
    return None if entry is None else StreamId.parse(entry[0])
