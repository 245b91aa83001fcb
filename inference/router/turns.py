"""What waits while the tokens of a worker's step are passed on: not a request whose answer has yet to begin."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sized
from typing import Protocol

#: So many connections are read, then the loop looks for what else has come.
_READ = 4
#: So many streams are written to, one right after the other, once they have something.
_WRITE = 16
#: Of very many that wait, so manieth part has its turn: what is new must not keep them waiting for ever.
_SHARE = 8


class Reader(Protocol):
    def read_now(self) -> None:
        """Deal with what has come by now."""


class Writer(Protocol):
    def write_now(self) -> None:
        """Write what there is by now."""


class Turns:
    """Deals with what can wait, a little at a time.

    A step of a worker brings tokens of all its streams together. They are a millisecond of work, and a new request, a
    ticket or a first token that comes a moment later would have to wait for all of it. So what comes of an answer that
    is under way is only taken from its socket at first; it is dealt with a few at a time, and between them whatever is
    new goes first.

    Writing comes in one go: a client that waits is woken by a write, which costs more than the write itself. Clients of
    one machine, or behind one proxy, are still awake for the writes that follow at once.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._readers: deque[Reader] = deque()
        self._writers: deque[Writer] = deque()
        self._called = False

    def wait_to_read(self, reader: Reader) -> None:
        """Have `reader` read, soon. Waiting twice, it has two turns."""
        self._readers.append(reader)
        if not self._called:
            self._called = True
            self._loop.call_soon(self._some)

    def wait_to_write(self, writer: Writer) -> None:
        """Have `writer` write, soon. Waiting twice, it has two turns."""
        self._writers.append(writer)
        if not self._called:
            self._called = True
            self._loop.call_soon(self._some)

    def _some(self) -> None:
        readers, writers = self._readers, self._writers
        try:
            for _ in range(_turns_of(readers, _READ)):
                readers.popleft().read_now()
            if not readers or len(writers) >= _WRITE:
                for _ in range(_turns_of(writers, _WRITE)):
                    writers.popleft().write_now()
        finally:
            self._called = bool(readers or writers)
            if self._called:
                self._loop.call_soon(self._some)


def _turns_of(waiting: Sized, few: int) -> int:
    return min(len(waiting), max(few, len(waiting) // _SHARE))
