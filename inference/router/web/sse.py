"""Server-sent events to one client (WHATWG HTML, "event stream" format)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from inference.router.turns import Turns

BEFORE_DATA, AFTER_DATA = b"data: ", b"\n\n"
DONE = BEFORE_DATA + b"[DONE]" + AFTER_DATA


#: So little fits into the buffers of a connection in which nothing waits.
_FITS = 16 * 1024

#: So many streams are written to before the loop looks for what else has come.
_AT_A_TIME = 8


class ClientGone(Exception):
    """The client closed its connection, or stopped reading."""


def event(data: bytes, name: str | None = None) -> bytes:
    """One event. data: a single line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + BEFORE_DATA + data + AFTER_DATA


@contextmanager
def _gone() -> Iterator[None]:
    """Tell a client that is gone, or takes too long, as `ClientGone`."""
    try:
        yield
    except (ConnectionError, TimeoutError) as error:
        raise ClientGone(str(error)) from error


class EventWriter:
    """Writes events to a client. The HTTP answer begins with the first write, so that an error before it can still have
    a status of its own.

    write_s: the longest that a client may take to accept a write. turns: shared by all streams.
    """

    __slots__ = (
        "_chunked",
        "_request",
        "_response",
        "_soon",
        "_turn",
        "_turns",
        "_write_s",
    )

    def __init__(self, request: web.Request, write_s: float, turns: Turns) -> None:
        self._request = request
        self._write_s = write_s
        self._response: web.StreamResponse | None = None
        self._chunked: asyncio.Transport | None = None
        self._turns = turns
        self._soon = b""
        self._turn = asyncio.Lock()  # answers to several prompts are written by several tasks

    @property
    def begun(self) -> bool:
        return self._response is not None

    async def write(self, events: bytes) -> None:
        """Raises `ClientGone`."""
        if self._cannot_wait(events):
            with _gone():
                await self._write(events)
        else:
            async with self._turn, self._patience():
                await self._write(events)

    async def end(self, events: bytes = b"") -> web.StreamResponse:
        """Write the last of it and close the answer. Raises `ClientGone`."""
        if self._cannot_wait(events):
            with _gone():
                return await self._end(events)
        async with self._turn, self._patience():
            return await self._end(events)

    def flows(self) -> bool:
        """Whether a little more can be written without waiting: the answer is under way, in chunks, and all that was
        written of it has gone."""
        transport = self._chunked
        return (
            transport is not None
            and not transport.get_write_buffer_size()
            and not transport.is_closing()
            and not self._turn.locked()
        )

    def write_at_once(self, events: bytes) -> None:
        """Write a little while it `flows`. It leaves with what other streams have, in the same turn of the loop."""
        if self._soon:
            self._soon += events
        else:
            self._soon = events
            self._turns.wait_to_write(self)

    def write_now(self) -> None:
        """For `Turns`: one chunk of the answer, past aiohttp, whose way to the same bytes costs as much as all else
        that is done for a token."""
        events, self._soon = self._soon, b""
        if events and self._chunked is not None:
            self._chunked.write(b"%x\r\n%b\r\n" % (len(events), events))

    def _cannot_wait(self, events: bytes) -> bool:
        """Whether so little can be written that it fits into buffers in which nothing is: then nobody has to have
        patience, and one that can't wait needs no turn."""
        transport = self._request.transport
        return (
            transport is not None
            and len(events) <= _FITS
            and not self._turn.locked()
            and transport.get_write_buffer_size() == 0
        )

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        with _gone():
            async with asyncio.timeout(self._write_s):
                yield

    async def _write(self, events: bytes) -> None:
        response = self._response or await self._begin()
        events, self._soon = self._soon + events, b""
        await response.write(events)
        if self._chunked is None and response.headers.get("Transfer-Encoding") == "chunked":
            self._chunked = self._request.transport

    async def _end(self, events: bytes) -> web.StreamResponse:
        response = self._response or await self._begin()
        events, self._soon = self._soon + events, b""
        await response.write_eof(events)
        return response

    async def _begin(self) -> web.StreamResponse:
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",  # asks a proxy such as nginx not to collect the stream
            }
        )
        await self._response.prepare(self._request)
        return self._response
