"""One HTTP/1.1 connection to a worker, with one call at a time. httptools (llhttp, the parser of Node) reads it.

What a read holds of a body is handed on in one piece, however many chunks it came in, which keeps the tokens of an
answer cheap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from inference.router.turns import Turns


class Receiver(Protocol):
    """Whoever made a call. After `end` or `lost` nothing more comes."""

    def head(self, status: int) -> None:
        """The answer begins."""

    def body(self, data: bytes) -> None:
        """More of its body."""

    def end(self) -> None:
        """It is whole. The connection may be in use for another call already."""

    def lost(self, error: Exception) -> None:
        """The connection ended before the answer was whole, or what came is no HTTP."""


class Connection(asyncio.Protocol):
    """free: called with the connection when it can take another call. gone: called when it is closed. turns: of all
    connections."""

    __slots__ = (
        "_free",
        "_gone",
        "_held",
        "_parser",
        "_parts",
        "_paused",
        "_receiver",
        "_status",
        "_transport",
        "_turns",
        "_used_up",
        "_whole",
        "unhurried",
    )

    def __init__(self, free: Callable[[Connection], None], gone: Callable[[Connection], None], turns: Turns) -> None:
        self._free = free
        self._gone = gone
        self._turns = turns
        self._held = b""
        self.unhurried = False  # what comes of this call can wait for its turn
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._status: int | None = None
        self._parts: list[bytes] = []
        self._whole = False
        self._used_up = False
        self._paused = False

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, request: bytes, receiver: Receiver) -> None:
        """Make a call. The connection must be free."""
        self._receiver = receiver
        self.unhurried = False
        if self._transport is None or self._transport.is_closing():
            asyncio.get_running_loop().call_soon(self._fail, ConnectionResetError("the connection was closed"))
            return
        self._transport.write(request)

    def abort(self) -> None:
        """Close it now, whatever it is doing. Its receiver hears nothing more."""
        self._receiver = None
        self._held = b""
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read nothing for now, so that the worker has to wait."""
        if self._transport is not None and self.open and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self.open and self._paused:
            self._paused = False
            self._transport.resume_reading()

    # -- of asyncio ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self.unhurried:
            self._read(data)
        elif self._held:
            self._held += data
        else:
            self._held = data
            self._turns.wait_to_read(self)

    def read_now(self) -> None:
        """For `Turns`."""
        if self._held:
            data, self._held = self._held, b""
            self._read(data)

    def _read(self, data: bytes) -> None:
        if self._receiver is None:  # nothing was asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(error)
            return
        if self._status is not None:
            status, self._status = self._status, None
            self._receiver.head(status)
        if self._parts:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            if self._receiver is not None:
                self._receiver.body(body)
        if self._whole:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.read_now()  # what came before it still counts
        self._transport = None
        self._gone(self)
        self._fail(exc or ConnectionResetError("the worker closed the connection"))

    # -- of httptools ----------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._whole:  # a second answer to one call
            self._used_up = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # what comes before is no answer yet
            self._status = status

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200:
            self._whole = True
            self._used_up = self._used_up or not self._parser.should_keep_alive()

    # -- ends ------------------------------------------------------------------------------------

    def _end(self) -> None:
        receiver, self._receiver, self._whole = self._receiver, None, False
        if self._used_up:
            self.abort()
        elif self.open:
            self.resume()
            self._free(self)
        if receiver is not None:
            receiver.end()

    def _fail(self, error: Exception) -> None:
        receiver = self._receiver
        self.abort()
        if receiver is not None:
            receiver.lost(error)
