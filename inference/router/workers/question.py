"""A call whose answer is wanted as a whole."""

from __future__ import annotations

import asyncio

from inference.router.workers.connection import Connection
from inference.router.workers.failures import refusal


class WholeAnswer:
    """A receiver for one call. Where one that waited for the answer left, another may wait for it instead.

    asked: the call was made.
    """

    __slots__ = ("_came", "_connection", "_error", "_parts", "_status", "_whole")

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._came: asyncio.Future[None] | None = None
        self._status = 0
        self._parts: list[bytes] = []
        self._whole = False
        self._error: Exception | None = None

    @property
    def asked(self) -> bool:
        return self._connection is not None

    def ask(self, connection: Connection, request: bytes) -> None:
        """Make the call. The connection must be free."""
        self._connection = connection
        connection.send(request, self)

    async def whole(self) -> bytes:
        """The body of a good answer. Redirects are no good ones: only addresses from the routing table are dialled.

        Raises:
            TandemError: the worker refused. OSError, httptools.HttpParserError: the answer never became whole.
        """
        if not self._whole and self._error is None:
            self._came = asyncio.get_running_loop().create_future()
            await self._came
        if self._error is not None:
            raise self._error
        body = b"".join(self._parts)
        if not 200 <= self._status < 300:
            raise refusal(self._status, body)
        return body

    def abandon(self) -> None:
        """Nobody waits for it any more: a connection on which it is still to come is closed."""
        if self._connection is not None and not self._whole:
            self._connection.abort()

    # -- of the connection -----------------------------------------------------------------------

    def head(self, status: int) -> None:
        self._status = status

    def body(self, data: bytes) -> None:
        self._parts.append(data)

    def end(self) -> None:
        self._whole = True
        self._tell()

    def lost(self, error: Exception) -> None:
        self._error = error
        self._tell()

    def _tell(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)
