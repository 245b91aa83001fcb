"""Pushes KV over TCP into the blocks of a ticket while the prompt is still being computed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import defaultdict
from collections.abc import Awaitable
from dataclasses import dataclass, field

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.transfer import wire
from inference.transfer.base import Computed, FirstTokens, KVSource, Pushed, PushOrder, TransferCounters, TransferLimits
from inference.transfer.handshake import greet_receiver
from inference.transfer.link import Link, LinkClosed, as_tandem_error

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class _Sent:
    """What of one fill is on its way."""

    digest: wire.FrameDigest = field(default_factory=wire.FrameDigest)
    tokens: int = 0
    bytes: int = 0
    busy_s: float = 0.0


class TcpSender:
    """See `KVSender`. A push has a connection for itself; connections whose push ended well are kept for the next.

    engine: whose KV is sent; it must have started before the first push. KV is exported on the event loop, where the
    caller also releases handles, so that no released block is read. tls: how receivers are called; None: in clear.
    """

    def __init__(
        self,
        *,
        secret: str,
        engine: KVSource,
        counters: TransferCounters,
        limits: TransferLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._secret = secret
        self._tls = tls
        self._engine = engine
        self._counters = counters
        self._limits = limits
        self._idle: defaultdict[Address, list[tuple[Link, asyncio.TimerHandle]]] = defaultdict(list)

    async def push(self, order: PushOrder, computed: Computed) -> Pushed:
        who = f"decode worker at {order.target.host}:{order.target.port}"
        link: Link | None = None
        try:
            async with asyncio.timeout(self._limits.open_s):
                link = await self._open(order)
            sent = _Sent()
            await self._until_verdict(link, order, self._feed(link, order, sent, computed))
        except BaseException as cause:
            error = as_tandem_error(cause, who)
            if link is None and isinstance(cause, asyncio.CancelledError):
                link = await self._open_to_abort(order)
            if link is not None:
                await self._give_up(link, order.ticket_id, error)
            if not isinstance(cause, Exception):
                raise
            self._counters.fail("sender", error.code)
            raise error from cause
        self._keep(order.target, link)
        self._counters.fills_sent += 1
        return Pushed(tokens=sent.tokens, bytes=sent.bytes, busy_s=sent.busy_s)

    async def close(self) -> None:
        for links in self._idle.values():
            for link, timer in links:
                timer.cancel()
                link.close()
        self._idle.clear()

    # -- one push --------------------------------------------------------------------------------

    async def _open(self, order: PushOrder) -> Link:
        """A connection on which the receiver accepted the fill; a kept one that turns out dead is replaced once."""
        opening = wire.Open(
            ticket_id=order.ticket_id,
            fingerprint=self._engine.info.fingerprint,
            tokens=len(order.token_ids),
            prompt_digest=wire.digest_of_prompt(order.token_ids),
        )
        kept = self._take(order.target)
        if kept is not None:
            try:
                return await self._ask(kept, opening)
            except OSError as error:
                log.info("kv transfer: kept connection was dead", request_id=order.request_id, error=str(error))
        return await self._ask(await self._connect(order.target), opening)

    async def _open_to_abort(self, order: PushOrder) -> Link | None:
        """Cancelled before the fill was open: the receiver still has to hear that nothing will come."""
        with contextlib.suppress(OSError, TandemError):
            async with asyncio.timeout(self._limits.abort_s):
                return await self._open(order)
        return None

    async def _ask(self, link: Link, opening: wire.Open) -> Link:
        try:
            await link.send(opening)
            await _answer(link, wire.Opened, opening.ticket_id)
        except BaseException:
            link.close()
            raise
        return link

    async def _until_verdict(self, link: Link, order: PushOrder, feeding: Awaitable[None]) -> None:
        """Feed the fill and listen at once, so that a refusal in the middle stops it."""
        feed = asyncio.ensure_future(feeding)
        verdict = asyncio.ensure_future(_answer(link, wire.Accepted, order.ticket_id))
        try:
            await asyncio.wait({feed, verdict}, return_when=asyncio.FIRST_COMPLETED)
            if verdict.done():
                verdict.result()
            await feed
            async with asyncio.timeout(self._limits.verdict_s):
                await verdict
        finally:
            for task in (feed, verdict):
                task.cancel()
            await asyncio.gather(feed, verdict, return_exceptions=True)

    async def _feed(self, link: Link, order: PushOrder, sent: _Sent, computed: Computed) -> None:
        while not isinstance(item := await computed.get(), FirstTokens):
            if isinstance(item, TandemError):
                raise item
            await self._send_range(link, order, sent, item.start, item.end)
        commit = wire.Commit(
            ticket_id=order.ticket_id,
            tokens=sent.tokens,
            bytes=sent.bytes,
            digest=sent.digest.value,
            first_tokens=item.token_ids,
        )
        async with asyncio.timeout(self._limits.frame_s):
            await link.send(commit)

    async def _send_range(self, link: Link, order: PushOrder, sent: _Sent, start: int, end: int) -> None:
        began = time.monotonic()
        info = self._engine.info
        for piece in wire.slices(info.layers, start, end, info.kv_bytes_per_token, self._limits.frame_bytes):
            payload = self._engine.export_kv(order.handle, piece.layers, piece.start, piece.end)
            data = wire.Data(
                ticket_id=order.ticket_id,
                first_layer=piece.layers.start,
                end_layer=piece.layers.stop,
                start=piece.start,
                end=piece.end,
                checksum=wire.checksum(payload),
            )
            async with asyncio.timeout(self._limits.frame_s):
                await link.send(data, payload)
            sent.digest.add(data)
            sent.bytes += payload.nbytes
            self._counters.bytes_sent += payload.nbytes
        sent.tokens = end
        sent.busy_s += time.monotonic() - began

    async def _give_up(self, link: Link, ticket_id: str, error: TandemError) -> None:
        """Abort at the receiver: by message where the connection still can, else by ending the connection."""
        try:
            if not link.broken:
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(self._limits.abort_s):
                        await link.send(wire.Abort(ticket_id=ticket_id, code=error.code, reason=error.message))
        finally:
            link.close()

    # -- connections -----------------------------------------------------------------------------

    async def _connect(self, target: Address) -> Link:
        link = await Link.connect(target, self._tls)
        try:
            await greet_receiver(link, self._secret)
        except BaseException:
            link.close()
            raise
        return link

    def _take(self, target: Address) -> Link | None:
        links = self._idle.get(target, [])
        while links:
            link, timer = links.pop()
            timer.cancel()
            if link.quiet:
                return link
            link.close()
        return None

    def _keep(self, target: Address, link: Link) -> None:
        links = self._idle[target]
        if len(links) >= self._limits.idle_connections:
            link.close()
            return
        timer = asyncio.get_running_loop().call_later(self._limits.idle_s, self._drop, target, link)
        links.append((link, timer))

    def _drop(self, target: Address, link: Link) -> None:
        self._idle[target] = [entry for entry in self._idle[target] if entry[0] is not link]
        if not self._idle[target]:
            del self._idle[target]  # workers come and go, each with a port of its own
        link.close()


async def _answer(link: Link, kind: type[wire.Opened | wire.Accepted], ticket_id: str) -> None:
    """Wait for the receiver's `kind` for this ticket; its refusal is raised."""
    try:
        header, _ = await link.receive(max_payload=0)
    except LinkClosed as error:
        raise LinkClosed("the receiver closed the connection") from error
    if isinstance(header, wire.Refused):
        raise wire.error_of(header.code, header.message)
    if not isinstance(header, kind) or header.ticket_id != ticket_id:
        raise TandemError(ErrorCode.TRANSFER_FAILED, f"the receiver sent {type(header).__name__} out of turn")
