"""Receives KV into the blocks of tickets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Coroutine

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport
from inference.engine.interface import EngineInfo
from inference.process.listener import Listener
from inference.transfer import wire
from inference.transfer.base import KVStore, TransferCounters, TransferLimits
from inference.transfer.fills import Fills
from inference.transfer.handshake import admit_sender
from inference.transfer.link import Link
from inference.transfer.memory import NotReachable, PeerMemory, machine, map_memory
from inference.transfer.nixl_memory import NixlImport
from inference.transfer.tickets import TicketTable
from inference.transfer.trial import check_trial

log = structlog.get_logger()


class KVReceiver:
    """Listens for senders. engine: must have started before a ticket is issued. tls: how it answers; None: in clear."""

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
        self._fills = Fills(engine, tickets, counters)
        self._counters = counters
        self._limits = limits
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int = 0) -> int:
        """Bind and start receiving into the ticket table; the bound port."""
        self._listener = await Listener.bind(host, port, self._take)
        return self._listener.port

    async def close(self) -> None:
        """Stop listening and end all connections, which aborts open fills."""
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _take(self, sock: socket.socket, host: str) -> None:
        if len(self._tasks) >= self._limits.connections:
            self._counters.fail("receiver", ErrorCode.QUEUE_FULL)
            sock.close()
        else:
            self._begin(Link(sock), host)

    def _begin(self, link: Link, host: str) -> None:
        """Serve a connection, and close it even if it is ended before that has begun."""
        self._spawn(self._serve(link, host)).add_done_callback(lambda _: link.close())

    async def _serve(self, link: Link, host: str) -> None:
        """One connection from hello to its end; whatever ends it ends its fills."""
        connection = _Connection(link, self._engine, self._limits)
        cause = TandemError(ErrorCode.TRANSFER_FAILED, "the connection from the prefill worker was lost")
        try:
            async with asyncio.timeout(self._limits.open_s):
                if self._tls is not None:
                    await link.answer_over(self._tls)
                await admit_sender(link, self._secret, self._welcome())
            await self._receive(connection)
        except TandemError as error:
            cause = error
            self._counters.fail("receiver", cause.code)
            log.warning("kv transfer: connection refused", peer=host, code=cause.code, reason=cause.message)
            self._fills.abandon(connection, cause)  # blocks first, courtesy second
            await self._say_why(link, cause)
        except OSError as error:  # closed, reset, or silent for too long
            log.debug("kv transfer: connection ended", peer=host, reason=str(error))
        finally:
            self._fills.abandon(connection, cause)
            connection.close()

    def _welcome(self) -> wire.Welcome:
        try:
            info = self._engine.info
        except TandemError:  # it is still loading, and holds no ticket
            return wire.Welcome(machine=machine())
        return wire.Welcome(
            machine=machine(), fingerprint=info.fingerprint, block_size=info.block_size, kv_dtype=info.kv_dtype
        )

    async def _receive(self, connection: _Connection) -> None:
        while True:
            async with asyncio.timeout(self._limits.receiver_idle_s):
                header, payload = await connection.link.receive()
            match header:
                case wire.Offer():
                    await connection.consider(header)
                case wire.Trial():
                    await check_trial(header, payload, connection.memory, connection.seed)
                    await connection.tell(wire.Tried())
                case _:
                    await self._fills.handle(connection, header, payload)
            await asyncio.sleep(0)  # a fast sender must not starve the token streams

    async def _say_why(self, link: Link, cause: TandemError) -> None:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(self._limits.abort_s):
                if not link.broken:
                    await link.send(wire.Refused(code=cause.code, message=cause.message))
                await link.drain()


class _Connection:
    """See `fills.Peer`."""

    def __init__(self, link: Link, engine: KVStore, limits: TransferLimits) -> None:
        self.link = link
        self.refused: set[str] = set()
        self.memory: PeerMemory | None = None
        self._engine = engine
        self._limits = limits
        self._sending = asyncio.Lock()

    @property
    def seed(self) -> int:
        return self.link.seed

    async def tell(self, header: wire.Header) -> None:
        async with self._sending, asyncio.timeout(self._limits.frame_s):
            await self.link.send(header)

    async def consider(self, offer: wire.Offer) -> None:
        """Agree to read from the sender's memory, if that can be done from here."""
        try:
            self.memory = await _reach(offer, self._engine.info)
        except NotReachable as error:
            log.warning("kv transfer: offer declined", transport=offer.transport, reason=str(error))
            await self.tell(wire.Declined(reason=str(error)))
        else:
            await self.tell(wire.Agreed())

    def close(self) -> None:
        self.link.close()
        if self.memory is not None:
            self.memory.close()


async def _reach(offer: wire.Offer, info: EngineInfo) -> PeerMemory:
    """Raises `NotReachable` with the reason."""
    if offer.transport is KVTransport.SHARED_MEMORY:
        return await map_memory(offer, info)
    if offer.transport is KVTransport.NIXL:
        return NixlImport(offer, info)
    raise NotReachable(f"{offer.transport} needs no offer")
