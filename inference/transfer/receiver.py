"""Receives KV over TCP into the blocks of tickets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Coroutine

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer import wire
from inference.transfer.base import KVStore, TransferCounters, TransferLimits
from inference.transfer.fills import Fills
from inference.transfer.handshake import admit_sender
from inference.transfer.link import Link
from inference.transfer.tickets import TicketTable

log = structlog.get_logger()


class TcpReceiver:
    """See `KVReceiver`. engine: must have started before a ticket is issued. tls: how it answers; None: in clear."""

    def __init__(
        self,
        *,
        secret: str,
        engine: KVStore,
        tickets: TicketTable,
        counters: TransferCounters,
        limits: TransferLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._secret = secret
        self._tls = tls
        self._engine = engine
        self._tickets = tickets
        self._counters = counters
        self._limits = limits
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int = 0) -> int:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._listener = socket.create_server((host, port), family=found[0][0], backlog=128)
        self._listener.setblocking(False)
        self._spawn(self._accept(self._listener))
        return int(self._listener.getsockname()[1])

    async def close(self) -> None:
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
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, peer = await loop.sock_accept(listener)
            except OSError as error:  # out of file descriptors, or the peer is gone again
                log.warning("kv transfer: accept failed", error=str(error))
                await asyncio.sleep(0.1)
                continue
            if len(self._tasks) > self._limits.connections:
                self._counters.fail("receiver", ErrorCode.QUEUE_FULL)
                sock.close()
            else:
                self._spawn(self._serve(Link(sock), peer[0]))

    async def _serve(self, link: Link, host: str) -> None:
        """One connection from hello to its end; whatever ends it ends its fills."""
        fills = Fills(self._engine, self._tickets, self._counters)
        cause = TandemError(ErrorCode.TRANSFER_FAILED, "the connection from the prefill worker was lost")
        try:
            async with asyncio.timeout(self._limits.open_s):
                if self._tls is not None:
                    await link.answer_over(self._tls)
                await admit_sender(link, self._secret)
            await self._receive(link, fills)
        except TandemError as error:
            cause = error
            self._counters.fail("receiver", cause.code)
            log.warning("kv transfer: connection refused", peer=host, code=cause.code, reason=cause.message)
            fills.abandon(cause)  # blocks first, courtesy second
            await self._say_why(link, cause)
        except OSError as error:  # closed, reset, or silent for too long
            log.debug("kv transfer: connection ended", peer=host, reason=str(error))
        finally:
            fills.abandon(cause)
            link.close()

    async def _receive(self, link: Link, fills: Fills) -> None:
        while True:
            async with asyncio.timeout(self._limits.receiver_idle_s):
                header, payload = await link.receive()
            reply = fills.handle(header, payload)
            if reply is not None:
                async with asyncio.timeout(self._limits.frame_s):
                    await link.send(reply)
            await asyncio.sleep(0)  # a fast sender must not starve the token streams

    async def _say_why(self, link: Link, cause: TandemError) -> None:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(self._limits.abort_s):
                if not link.broken:
                    await link.send(wire.Refused(code=cause.code, message=cause.message))
                await link.drain()
