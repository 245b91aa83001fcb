"""Connections from a sender to receivers: made, agreed on with the receiver, kept for the next push, closed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.states import KVTransport
from inference.transfer import wire
from inference.transfer.base import KVSource, TransferCounters, TransferLimits, TransferSettings
from inference.transfer.carriers import Carrier, InFrames, InPlace
from inference.transfer.handshake import greet_receiver
from inference.transfer.link import Link
from inference.transfer.memory import NotReachable, machine, offer_of
from inference.transfer.nixl_memory import NixlExport

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class Line:
    """A receiver, reached. main: the connection that answers come on. carrier: how KV travels on it. welcome: what the
    receiver said of itself. missed: transports that were to be used and can't, each with its reason. helpers: further
    connections, which only bring frames."""

    target: Address
    main: Link
    carrier: Carrier
    welcome: wire.Welcome
    missed: list[str] = field(default_factory=list)
    helpers: list[Link] = field(default_factory=list)

    @property
    def links(self) -> list[Link]:
        return [self.main, *self.helpers]

    @property
    def quiet(self) -> bool:
        return all(link.quiet for link in self.links)

    def close(self) -> None:
        for link in self.links:
            link.close()


class Lines:
    """All connections of one sender. tls: how receivers are called; None: in clear."""

    def __init__(
        self,
        *,
        secret: str,
        engine: KVSource,
        counters: TransferCounters,
        limits: TransferLimits,
        settings: TransferSettings,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._secret = secret
        self._engine = engine
        self._counters = counters
        self._limits = limits
        self._settings = settings
        self._tls = tls
        self._nixl: NixlExport | None = None
        self._idle: defaultdict[Address, list[tuple[Line, asyncio.TimerHandle]]] = defaultdict(list)

    # -- made ------------------------------------------------------------------------------------

    async def connect(self, target: Address) -> Line:
        """A new connection, with whatever transport it can have.

        Raises:
            OSError: nobody listens at `target`.
            TandemError: UNAUTHENTICATED, or FINGERPRINT_MISMATCH for another version of the protocol.
        """
        link = await Link.connect(target, self._tls)
        try:
            welcome = await greet_receiver(link, self._secret)
            carrier, missed = await self._agree(link, welcome)
            return Line(target, link, carrier, welcome, missed)
        except BaseException:
            link.close()
            raise

    async def widen(self, line: Line) -> None:
        """Give `line` as many helpers as the settings want. One that can't be had is done without."""
        with contextlib.suppress(OSError):
            while len(line.links) < self._settings.streams:
                link = await Link.connect(line.target, self._tls)
                line.helpers.append(link)
                try:
                    await greet_receiver(link, self._secret)
                except BaseException:
                    line.helpers.remove(link)
                    link.close()
                    raise

    async def _agree(self, link: Link, welcome: wire.Welcome) -> tuple[Carrier, list[str]]:
        """The first transport of the settings that both can have, and why not a better one."""
        missed: list[KVTransport] = []
        reasons: list[str] = []
        for transport in self._candidates(welcome):
            try:
                await _propose(link, self._offer(transport))
            except NotReachable as error:
                missed.append(transport)
                reasons.append(f"{transport}: {error}")
                log.warning("kv transfer: transport can't be used", transport=transport, reason=str(error))
            else:
                self._note(missed, transport)
                return InPlace(self._engine, self._limits.shared_frame_bytes, transport), reasons
        self._note(missed, KVTransport.TCP)
        return InFrames(self._engine, self._limits.frame_bytes, self._settings.wire_dtype), reasons

    def _candidates(self, welcome: wire.Welcome) -> Iterator[KVTransport]:
        """What ought to work between the two, up to TCP, which does."""
        for transport in self._settings.transports:
            if transport is KVTransport.TCP:
                return
            near = welcome.machine == machine() != ""
            if transport is KVTransport.NIXL or (near and self._engine.kv_memory is not None):
                yield transport

    def _offer(self, transport: KVTransport) -> wire.Offer:
        """Raises `NotReachable` when this side can't."""
        memory = self._engine.kv_memory
        if memory is None:
            raise NotReachable("this engine's KV lies where only its own process can read it")
        if transport is KVTransport.SHARED_MEMORY:
            return offer_of(memory)
        if self._nixl is None:
            self._nixl = NixlExport(memory)
        return self._nixl.offer()

    def _note(self, missed: list[KVTransport], taken: KVTransport) -> None:
        for transport in missed:
            self._counters.fallbacks[transport, taken] += 1

    # -- kept ------------------------------------------------------------------------------------

    def take(self, target: Address) -> Line | None:
        """A kept connection that still seems alive."""
        lines = self._idle.get(target, [])
        while lines:
            line, timer = lines.pop()
            timer.cancel()
            if line.quiet:
                return line
            line.close()
        return None

    def keep(self, line: Line) -> None:
        lines = self._idle[line.target]
        if len(lines) >= self._limits.idle_connections:
            line.close()
            return
        timer = asyncio.get_running_loop().call_later(self._limits.idle_s, self._drop, line)
        lines.append((line, timer))

    def _drop(self, line: Line) -> None:
        left = [entry for entry in self._idle[line.target] if entry[0] is not line]
        self._idle[line.target] = left
        if not left:
            del self._idle[line.target]  # workers come and go, each with a port of its own
        line.close()

    def close(self) -> None:
        """Close what is kept. What is in use is its user's to close."""
        for lines in self._idle.values():
            for line, timer in lines:
                timer.cancel()
                line.close()
        self._idle.clear()
        if self._nixl is not None:
            self._nixl.close()
            self._nixl = None


async def _propose(link: Link, offer: wire.Offer) -> None:
    """
    Raises:
        NotReachable: declined, with the receiver's reason.
        TandemError: the receiver's refusal.
    """
    await link.send(offer)
    header, _ = await link.receive(max_payload=0)
    if isinstance(header, wire.Declined):
        raise NotReachable(header.reason)
    if isinstance(header, wire.Refused):
        raise wire.error_of(header.code, header.message)
    if not isinstance(header, wire.Agreed):
        raise TandemError(ErrorCode.TRANSFER_FAILED, f"the receiver sent {type(header).__name__} out of turn")
