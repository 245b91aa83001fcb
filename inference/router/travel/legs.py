"""The one or two worker streams of an attempt, read side by side, each with a deadline for its next event."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from enum import StrEnum

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished, HandoffDone, StreamEvent, StreamFailed, TokenDelta
from inference.process.tasks import Background
from inference.router.workers.client import CLOSING_EVENTS, EventStream, WorkerLost

_INBOX_EVENTS = 64


class Leg(StrEnum):
    """PREFILL: the prefill worker's stream. ANSWER: the stream of the worker that writes the answer."""

    PREFILL = "prefill"
    ANSWER = "answer"


#: What a leg can tell besides failing.
LegEvent = TokenDelta | HandoffDone | Finished


class LegFailed(Exception):
    """`leg` can't be completed, because of `error`."""

    def __init__(self, leg: Leg, error: TandemError) -> None:
        super().__init__(f"{leg}: {error}")
        self.leg = leg
        self.error = error


class Legs:
    """Merges the streams into one sequence of events.

    The inbox is bounded, so a client that reads slowly slows the workers down instead of filling memory. Time is that
    of the event loop: these are deadlines, not measurements.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._loop = asyncio.get_running_loop()
        self._inbox: asyncio.Queue[tuple[Leg, StreamEvent | TandemError]] = asyncio.Queue(_INBOX_EVENTS)
        self._due: dict[Leg, float] = {}
        self._readers: dict[Leg, asyncio.Task[None]] = {}

    def open(self, leg: Leg, events: EventStream) -> None:
        """Start reading `events` as `leg`."""
        self._readers[leg] = self._background.start(self._read(leg, events))

    def expect(self, leg: Leg, within_s: float) -> None:
        """From now on the next event of `leg` must come within so many seconds."""
        self._due[leg] = self._loop.time() + within_s

    def excuse(self, leg: Leg) -> None:
        """Nothing is expected of `leg` (any more)."""
        self._due.pop(leg, None)

    async def next(self) -> tuple[Leg, LegEvent]:
        """The next event of any leg.

        Raises:
            LegFailed: a leg failed, or was silent past its deadline.
        """
        try:
            async with asyncio.timeout_at(min(self._due.values(), default=None)):
                leg, item = await self._inbox.get()
        except TimeoutError:
            silent = min(self._due, key=lambda leg: self._due[leg])
            raise LegFailed(silent, WorkerLost(ErrorCode.DEADLINE_EXCEEDED, "silent past its deadline")) from None
        if isinstance(item, TandemError):
            raise LegFailed(leg, item)
        if isinstance(item, StreamFailed):
            raise LegFailed(leg, _told(item))
        return leg, item

    def close(self) -> None:
        """Abort every stream that is not complete: the worker sees its connection close."""
        for reader in self._readers.values():
            reader.cancel()
        self._readers.clear()

    async def _read(self, leg: Leg, events: EventStream) -> None:
        try:
            async with aclosing(events):
                async for event in events:
                    await self._inbox.put((leg, event))
                    if isinstance(event, CLOSING_EVENTS):
                        self._readers.pop(leg, None)  # what follows is only the end of the HTTP answer
        except TandemError as error:
            await self._inbox.put((leg, error))


def _told(event: StreamFailed) -> TandemError:
    try:
        return TandemError(ErrorCode(event.code), event.message)
    except ValueError:
        return TandemError(ErrorCode.ENGINE_FAILED, f"{event.code}: {event.message}")
