"""The one or two worker streams of an attempt, read side by side, each with a deadline for its next event."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Protocol, cast

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import Finished, HandoffDone, StreamEvent, StreamFailed, TokenDelta
from inference.router.workers.failures import WorkerLost

#: With more events than so many waiting, the workers have to wait, too.
_MOST_WAITING = 256


class Leg(StrEnum):
    """PREFILL: the prefill worker's stream. ANSWER: the stream of the worker that writes the answer."""

    PREFILL = "prefill"
    ANSWER = "answer"


#: What a leg can tell besides failing.
LegEvent = TokenDelta | HandoffDone | Finished


#: Takes tokens of a leg, or returns False and leaves them.
AtOnce = Callable[[Leg, list[TokenDelta]], bool]


class Stream(Protocol):
    """See `EventStream`."""

    def begin(self, sink: Callable[[list[StreamEvent] | TandemError], None]) -> None: ...

    def close(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class LegFailed(Exception):
    """`leg` can't be completed, because of `error`."""

    def __init__(self, leg: Leg, error: TandemError) -> None:
        super().__init__(f"{leg}: {error}")
        self.leg = leg
        self.error = error


class Legs:
    """Merges the streams into one sequence of events, and gives as many at a time as were read at once.

    Few may wait, so a client that reads slowly slows the workers down instead of filling memory. Time is that of the
    event loop: these are deadlines, not measurements.
    """

    __slots__ = (
        "_at_once",
        "_due",
        "_inbox",
        "_loop",
        "_paused",
        "_reader",
        "_streams",
        "_timer",
        "_waiting",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Leg, list[LegEvent] | TandemError]] = deque()
        self._waiting = 0
        self._paused = False
        self._reader: asyncio.Future[None] | None = None
        self._at_once: AtOnce | None = None
        self._due: dict[Leg, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._streams: list[Stream] = []

    def open(self, leg: Leg, stream: Stream) -> None:
        """Begin `stream` and read it as `leg`."""
        self._streams.append(stream)
        stream.begin(partial(self._put, leg))

    def expect(self, leg: Leg, within_s: float) -> None:
        """From now on the next event of `leg` must come within so many seconds."""
        self._due[leg] = self._loop.time() + within_s

    def excuse(self, leg: Leg) -> None:
        """Nothing is expected of `leg` (any more)."""
        self._due.pop(leg, None)

    async def next(self, at_once: AtOnce | None = None) -> tuple[Leg, list[LegEvent]]:
        """The next events of any leg, one or more. A closing one is the last of its leg.

        at_once: tokens that come while this waits are offered to it first, and those it takes are not waited for any
        more. The connection that read them calls it, so that no task needs a turn; what it raises is raised here.

        Raises:
            LegFailed: a leg failed, or was silent past its deadline.
        """
        if not self._inbox:
            self._at_once = at_once
            await self._something()
        leg, item = self._inbox.popleft()
        if isinstance(item, TandemError):
            raise LegFailed(leg, item)
        self._waiting -= len(item)
        if self._paused and self._waiting <= _MOST_WAITING:
            self._paused = False
            for stream in self._streams:
                stream.resume()
        return leg, item

    def close(self) -> None:
        """Abort every stream that is not complete: the worker sees its connection close."""
        if self._timer is not None:
            self._timer.cancel()
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    # -- what comes in ---------------------------------------------------------------------------

    def _put(self, leg: Leg, told: list[StreamEvent] | TandemError) -> None:
        reader = self._reader
        awaited = reader is not None and not reader.done()
        if isinstance(told, TandemError):
            self._inbox.append((leg, told))
        else:
            if awaited and self._at_once is not None and type(told[-1]) is TokenDelta:
                try:
                    if self._at_once(leg, told):  # type: ignore[arg-type]  # a closing event would be the last one
                        return
                except Exception as error:
                    reader.set_exception(error)  # type: ignore[union-attr]
                    return
            self._put_events(leg, told)
        if awaited:
            reader.set_result(None)  # type: ignore[union-attr]

    def _put_events(self, leg: Leg, told: list[StreamEvent]) -> None:
        failure = told[-1] if isinstance(told[-1], StreamFailed) else None
        events = cast(list[LegEvent], told if failure is None else told[:-1])
        if events:
            self._inbox.append((leg, events))
            self._waiting += len(events)
        if failure is not None:
            self._inbox.append((leg, _told(failure)))
        if self._waiting > _MOST_WAITING and not self._paused:
            self._paused = True
            for stream in self._streams:
                stream.pause()

    # -- waiting ---------------------------------------------------------------------------------

    async def _something(self) -> None:
        """Wait until the inbox holds something; at the deadline it holds that.

        One timer serves many waits: deadlines move on with every event, and it looks for itself when it rings.
        """
        self._reader = self._loop.create_future()
        due = min(self._due.values(), default=None)
        if due is not None and (self._timer is None or self._timer.when() > due):
            self._arm(due)
        try:
            await self._reader
        finally:
            self._reader = self._at_once = None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._reader is None or self._reader.done() or not self._due:
            return  # the next wait sets it again
        silent = min(self._due, key=lambda leg: self._due[leg])
        if self._due[silent] > self._loop.time():
            self._arm(self._due[silent])
            return
        self._put(silent, WorkerLost(ErrorCode.DEADLINE_EXCEEDED, "silent past its deadline"))


def _told(event: StreamFailed) -> TandemError:
    try:
        return TandemError(ErrorCode(event.code), event.message)
    except ValueError:
        return TandemError(ErrorCode.ENGINE_FAILED, f"{event.code}: {event.message}")
