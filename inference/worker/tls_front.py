"""The port of a worker that is called over TLS, and what a caller in clear is told there."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine

import structlog
from aiohttp import web

from inference.contracts.codec import encode
from inference.contracts.errors import ErrorCode, http_status
from inference.contracts.generation import WorkerError
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
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str) -> int:
        """Bind a free port of `host`; which one."""
        found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_STREAM)
        self._listener = socket.create_server((host, 0), family=found[0][0], backlog=128)
        self._listener.setblocking(False)
        self._spawn(self._accept(self._listener))
        return int(self._listener.getsockname()[1])

    async def close(self) -> None:
        """Take no more connections; those that `server` has are its own."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            except OSError as error:  # out of file descriptors, or the peer is gone again
                log.warning("accept failed", error=str(error))
                await asyncio.sleep(0.1)
                continue
            self._spawn(self._admit(sock))

    async def _admit(self, sock: socket.socket) -> None:
        try:
            async with asyncio.timeout(_OPEN_S):
                if not await speaks_tls(sock):
                    log.warning("call refused: not over TLS", peer=sock.getpeername()[0])
                    return await _refuse(sock)
                loop = asyncio.get_running_loop()
                await loop.connect_accepted_socket(self._server, sock, ssl=self._tls)
        except OSError as error:  # the caller left, is silent, or does not trust us
            log.info("no TLS with a caller", reason=str(error) or type(error).__name__)
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise


async def _refuse(sock: socket.socket) -> None:
    """Answer, then read until the caller closes: closing with bytes unread would reset the connection, and the caller
    might never see the answer."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, _ANSWER)
    sock.shutdown(socket.SHUT_WR)
    while await loop.sock_recv(sock, 65_536):
        pass
    sock.close()
