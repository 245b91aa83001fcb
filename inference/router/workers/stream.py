"""The stream of events that answers a prefill or generate call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import StreamEvent, TokenDelta
from inference.process.tasks import Background
from inference.router.workers.connection import Connection
from inference.router.workers.failures import MAX_LINE_BYTES, WorkerLost, lost, refusal

#: Takes events, as many as were read at once, or why there are no more. Of all that it is given only the last one is a
#: closing event (any but a `TokenDelta`) or an error.
Sink = Callable[[list[StreamEvent] | TandemError], None]

_events = msgspec.json.Decoder(StreamEvent)


class EventStream:
    """A call that is answered by events. Has no deadline for them: who reads knows what may take how long.

    idle: gives a free connection to the worker, where there is one. connect: makes one. request: what is sent.
    settle_s: after the closing event, the end of the HTTP answer is awaited for so long, so that the connection can be
    used again.
    """

    __slots__ = (
        "_background",
        "_connect",
        "_connecting",
        "_connection",
        "_idle",
        "_request",
        "_rest",
        "_settle_s",
        "_settling",
        "_sink",
        "_status",
    )

    def __init__(
        self,
        idle: Callable[[], Connection | None],
        connect: Callable[[], Coroutine[Any, Any, Connection]],
        request: bytes,
        settle_s: float,
        background: Background,
    ) -> None:
        self._idle = idle
        self._connect = connect
        self._request = request
        self._settle_s = settle_s
        self._background = background
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._sink: Sink | None = None
        self._status = 200
        self._rest = b""
        self._settling: asyncio.TimerHandle | None = None

    def begin(self, sink: Sink) -> None:
        """Make the call."""
        self._sink = sink
        self._connection = self._idle()
        if self._connection is not None:
            self._connection.send(self._request, self)
        else:
            self._connecting = self._background.start(self._connect_and_send())

    def close(self) -> None:
        """Nothing more is wanted: a stream that is not complete is aborted, so that the worker sees its connection
        close; of one that is, the end of the HTTP answer is still read."""
        if self._sink is None:
            return
        self._sink = None
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.abort()

    def pause(self) -> None:
        """Read nothing for now."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    async def _connect_and_send(self) -> None:
        try:
            self._connection = await self._connect()
        except TandemError as error:
            self._give_up(error)
        else:
            self._connection.send(self._request, self)
        finally:
            self._connecting = None

    # -- of the connection -----------------------------------------------------------------------

    def head(self, status: int) -> None:
        self._status = status

    def body(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        if not 200 <= self._status < 300:
            self._rest = data[:MAX_LINE_BYTES]
            return
        cut = data.rfind(b"\n") + 1
        if cut == len(data):
            self._rest = b""
            self._read(data)
            return
        self._rest = data[cut:]
        if cut:
            self._read(data[:cut])
        if len(self._rest) > MAX_LINE_BYTES:
            self._fail(WorkerLost(ErrorCode.ENGINE_FAILED, f"a line of more than {MAX_LINE_BYTES} bytes"))

    def end(self) -> None:
        self._connection = None
        if self._settling is not None:
            self._settling.cancel()
        if not 200 <= self._status < 300:
            self._give_up(refusal(self._status, self._rest))
            return
        if self._rest:
            self._read(self._rest)
        self._give_up(WorkerLost(ErrorCode.ENGINE_FAILED, "the stream ended before the answer did"))

    def lost(self, error: Exception) -> None:
        self._connection = None
        if self._settling is not None:
            self._settling.cancel()
        self._give_up(lost(error))

    # -- events ----------------------------------------------------------------------------------

    def _read(self, lines: bytes) -> None:
        """Hand on what whole lines say, up to the closing event."""
        if self._sink is None:
            return
        try:
            events = _events.decode_lines(lines)
        except msgspec.MsgspecError:
            self._read_one_by_one(lines)
            return
        for at, event in enumerate(events):
            if type(event) is not TokenDelta:
                self._close_with(events[: at + 1])
                return
        if events:
            self._sink(events)
            if self._connection is not None:
                self._connection.unhurried = True  # the first of them was what somebody waited for

    def _read_one_by_one(self, lines: bytes) -> None:
        """Of lines of which one can't be read, those before it count."""
        good: list[StreamEvent] = []
        for line in lines.splitlines():
            try:
                good.append(_events.decode(line))
            except msgspec.MsgspecError as error:
                if good and self._sink is not None:
                    self._sink(good)
                self._fail(lost(error))
                return
            if type(good[-1]) is not TokenDelta:
                self._close_with(good)
                return

    def _close_with(self, events: list[StreamEvent]) -> None:
        """The last of them closes the stream."""
        sink, self._sink = self._sink, None
        connection = self._connection
        if connection is not None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(self._settle_s, connection.abort)
        if sink is not None:
            sink(events)

    def _fail(self, error: TandemError) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        self._give_up(error)

    def _give_up(self, error: TandemError) -> None:
        sink, self._sink = self._sink, None
        if sink is not None:
            sink(error)
