"""The port of a worker that is called over TLS, and what a caller in clear is told there."""

from __future__ import annotations

import asyncio
import socket
import ssl

import structlog
from aiohttp import web

from inference.contracts.codec import encode
from inference.contracts.errors import ErrorCode, http_status
from inference.contracts.generation import WorkerError
from inference.process.listener import Listener
from inference.process.tls import TLS_ONLY, speaks_tls

#: A caller is known, or refused, within so many seconds.
_OPEN_S = 10.0
_REFUSAL = encode(WorkerError(code=ErrorCode.UNAUTHENTICATED, message=TLS_ONLY))
_ANSWER = (
    f"HTTP/1.1 {http_status(ErrorCode.UNAUTHENTICATED)} Unauthorized\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_REFUSAL)}\r\nConnection: close\r\n\r\n"
).encode() + _REFUSAL

log = structlog.get_logger()


class TlsFront:
    """Hands each connection to `server` once it is known to begin with TLS. A plain TLS listener would hang up on the
    others without a word, and whoever forgot a setting would take the worker for dead."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext) -> None:
        self._server = server
        self._tls = tls
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str) -> int:
        """Bind a free port of `host`; which one."""
        self._listener = await Listener.bind(host, 0, self._take)
        return self._listener.port

    async def close(self) -> None:
        """Take no more connections; those that `server` has are its own."""
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, sock: socket.socket, peer: str) -> None:
        task = asyncio.get_running_loop().create_task(self._admit(sock, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda ended: sock.close() if ended.cancelled() else None)  # even before it began

    async def _admit(self, sock: socket.socket, peer: str) -> None:
        try:
            async with asyncio.timeout(_OPEN_S):
                if not await speaks_tls(sock):
                    log.warning("call refused: not over TLS", peer=peer)
                    return await _refuse(sock)
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(self._server, sock, ssl=self._tls)
        except OSError as error:  # the caller left, is silent, or does not trust us
            log.info("no TLS with a caller", reason=str(error) or type(error).__name__)
            sock.close()


async def _refuse(sock: socket.socket) -> None:
    """Answer, then read until the caller closes: closing with bytes unread would reset the connection, and the caller
    might never see the answer."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, _ANSWER)
    sock.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(sock, 65_536):
        pass
    sock.close()
