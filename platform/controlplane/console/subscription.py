"""What one socket still has to send: a few events at most, or the knowledge that it needs a fresh snapshot instead."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.telemetry.stream import BEGINNING, StreamId


@dataclass(frozen=True, slots=True)
class Event:
    """text: the whole `EventMessage` in its wire form, shared by all sockets."""

    position: StreamId
    text: str


@dataclass(frozen=True, slots=True)
class Stale:
    """The event stream can't be followed; what was sent may be old."""

    reason: str


class Resync:
    """Events may have been missed: a fresh snapshot is due."""


class Subscription:
    """A bounded queue between the hub and one socket.

    A socket that is too slow loses its queue and is asked to send a snapshot, which holds the newest of everything: a
    slow browser costs no memory and, when it comes round, no time on what is past.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[Event] = deque()
        self._sent_up_to = BEGINNING
        self._resync = False
        self._stale: Stale | None = None
        self._something = asyncio.Event()

    async def next(self) -> Event | Resync | Stale:
        """What to send next; waits until there is something."""
        while True:
            if self._resync:
                self._resync = False
                return Resync()
            if self._stale is not None:
                stale, self._stale = self._stale, None
                return stale
            while self._events:
                event = self._events.popleft()
                if event.position > self._sent_up_to:
                    return event
            self._something.clear()
            await self._something.wait()

    def starts_after(self, position: StreamId) -> None:
        """The socket has sent everything up to `position`, by a snapshot or before it was connected."""
        self._sent_up_to = position

    def offer(self, event: Event) -> None:
        """One more event. While a snapshot is due it is not kept: the snapshot will contain it."""
        if self._resync:
            return
        if len(self._events) >= self._limit:
            self.resync()
            return
        self._events.append(event)
        self._something.set()

    def replay(self, earlier: Iterable[Event]) -> None:
        """Put `earlier` before what is queued."""
        if not self._resync:
            self._events.extendleft(reversed(list(earlier)))
            self._something.set()

    def resync(self) -> None:
        """Forget what is queued and ask for a snapshot. It also ends a staleness not told yet."""
        self._events.clear()
        self._stale = None
        self._resync = True
        self._something.set()

    def stale(self, reason: str) -> None:
        self._stale = Stale(reason)
        self._something.set()
