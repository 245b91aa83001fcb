"""An HTTP server for stubs: keep-alive, bodies with a length, answers that are ready before they are asked for.

Streams are written as an engine writes: with each step of 10 ms every stream of a worker gets its next piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tests.bench.router.answers import STEP_S


class Steps:
    """The steps of one engine. They run while there are streams."""

    def __init__(self) -> None:
        self._streams: dict[Connection, tuple[Sequence[bytes], int]] = {}
        self._due = 0.0

    def add(self, connection: Connection, pieces: Sequence[bytes], begin: int) -> None:
        """Send pieces from `begin` on."""
        if not self._streams:
            loop = asyncio.get_running_loop()
            self._due = loop.time() + STEP_S
            loop.call_at(self._due, self._step)
        self._streams[connection] = (pieces, begin)

    def drop(self, connection: Connection) -> None:
        self._streams.pop(connection, None)

    def _step(self) -> None:
        for connection, (pieces, at) in list(self._streams.items()):
            connection.send(pieces[at])
            if at + 1 < len(pieces):
                self._streams[connection] = (pieces, at + 1)
            else:
                del self._streams[connection]
        if self._streams:
            self._due += STEP_S
            asyncio.get_running_loop().call_at(self._due, self._step)


Answer = Callable[["Connection", bytes, bytes, bytes], None]


class Connection(asyncio.Protocol):
    """One connection of a router. answer: called with this, method, path and body of each request."""

    def __init__(self, answer: Answer, steps: Steps) -> None:
        self._answer = answer
        self._steps = steps
        self._unread = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._steps.drop(self)

    def data_received(self, data: bytes) -> None:
        unread = self._unread + data if self._unread else data
        while (end := unread.find(b"\r\n\r\n")) >= 0:
            head = unread[:end]
            begin = end + 4
            size = _length(head)
            if len(unread) < begin + size:
                break
            method, path, _ = head.split(b" ", 2)
            body, unread = unread[begin : begin + size], unread[begin + size :]
            self._answer(self, method, path, body)
        self._unread = unread

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def stream(self, head: bytes, pieces: Sequence[bytes], at_once: int) -> None:
        """Begin a stream, of which so many pieces go out at once and the others step by step."""
        self.send(head + b"".join(pieces[:at_once]))
        if at_once < len(pieces):
            self._steps.add(self, pieces, at_once)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def serve(answer: Answer) -> asyncio.Server:
    """Start a worker of its own steps on a free port: see `port_of`."""
    steps = Steps()
    return await asyncio.get_running_loop().create_server(
        lambda: Connection(answer, steps), "127.0.0.1", 0, backlog=1024
    )


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])
