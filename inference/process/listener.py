"""Connections are taken as they come, and none is lost when that ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import structlog

_BACKLOG = 128
_PAUSE_S = 0.1
_log = structlog.get_logger()


class Listener:
    """Gives each new connection, which does not block, and its peer's address to `take`; closing it is for them.

    A task that waits in `loop.sock_accept` and is cancelled in the turn in which a connection came loses that one,
    unclosed. Here nobody waits.
    """

    def __init__(self, sock: socket.socket, take: Callable[[socket.socket, str], None]) -> None:
        self._sock = sock
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    @classmethod
    async def bind(cls, host: str, port: int, take: Callable[[socket.socket, str], None]) -> Listener:
        """port: 0 takes any free one. Raises `OSError` when the address can't be had."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sock = socket.create_server((host, port), family=found[0][0], backlog=_BACKLOG)
        sock.setblocking(False)
        return cls(sock, take)

    @property
    def port(self) -> int:
        return int(self._sock.getsockname()[1])

    def close(self) -> None:
        """Closing twice is closing once."""
        if self._pause is not None:
            self._pause.cancel()
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
        self._sock.close()

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        try:
            sock, peer = self._sock.accept()
        except BlockingIOError:  # it has left again
            return
        except OSError as error:  # out of file descriptors, say: at once again would be no better
            _log.warning("accept failed", error=str(error))
            self._loop.remove_reader(self._sock)
            self._pause = self._loop.call_later(_PAUSE_S, self._listen)
            return
        sock.setblocking(False)
        self._take(sock, str(peer[0]))
