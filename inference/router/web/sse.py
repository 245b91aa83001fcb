"""Server-sent events to one client (WHATWG HTML, "event stream" format)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

DONE = b"data: [DONE]\n\n"

#: So little fits into the buffer of a connection in which nothing waits.
_FITS = 16 * 1024


class ClientGone(Exception):
    """The client closed its connection, or stopped reading."""


def event(data: bytes, name: str | None = None) -> bytes:
    """One event. data: a single line."""
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


class EventWriter:
    """Writes events to a client. The HTTP answer begins with the first write, so that an error before it can still have
    a status of its own.

    write_s: the longest that a client may take to accept a write.
    """

    def __init__(self, request: web.Request, write_s: float) -> None:
        self._request = request
        self._write_s = write_s
        self._response: web.StreamResponse | None = None
        self._turn = asyncio.Lock()  # answers to several prompts are written by several tasks

    @property
    def begun(self) -> bool:
        return self._response is not None

    async def write(self, events: bytes) -> None:
        """Raises `ClientGone`."""
        if self._response is None or len(events) > _FITS or self._waiting:
            async with self._patience(), self._turn:
                response = self._response or await self._begin()
                await response.write(events)
            return
        try:  # nothing can make this wait, so it needs neither patience nor a turn
            await self._response.write(events)
        except ConnectionError as error:
            raise ClientGone(str(error)) from error

    @property
    def _waiting(self) -> bool:
        """Whether something is still to be written to the client, or to be begun."""
        transport = self._request.transport
        return transport is None or self._turn.locked() or transport.get_write_buffer_size() > 0

    async def end(self) -> web.StreamResponse:
        """Close the answer, which must have begun. Raises `ClientGone`."""
        if self._response is None:
            raise RuntimeError("nothing was written")
        async with self._patience():
            await self._response.write_eof()
        return self._response

    @asynccontextmanager
    async def _patience(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._write_s):
                yield
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone(str(error)) from error

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
