"""Pushes KV into the blocks of a ticket while the prompt is still being computed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.worker import PairReport
from inference.transfer import wire
from inference.transfer.base import (
    Computed,
    FirstTokens,
    KVSource,
    Pushed,
    PushOrder,
    TransferCounters,
    TransferLimits,
    TransferSettings,
)
from inference.transfer.carriers import InFrames
from inference.transfer.lines import Line, Lines
from inference.transfer.link import Link, LinkClosed, as_tandem_error
from inference.transfer.places import Slice, needed
from inference.transfer.preflight import preflight

A = TypeVar("A", wire.Opened, wire.Accepted)

log = structlog.get_logger()

#: A fill of fewer frames is not worth further connections.
_FRAMES_TO_SPREAD = 8


@dataclass(eq=False, slots=True)
class _Fill:
    """One fill and what of it is on its way. wanted: per layer, the tokens that the receiver needs. links: that carry
    it."""

    order: PushOrder
    line: Line
    wanted: Sequence[range]
    links: list[Link]
    digest: wire.FrameDigest = field(default_factory=wire.FrameDigest)
    tokens: int = 0
    bytes: int = 0
    busy_s: float = 0.0


class KVSender:
    """A push has a connection for itself; connections whose push ended well are kept for the next.

    engine: whose KV is sent; it must have started before the first push. KV is read on the event loop, where the caller
    also releases handles, so that no released block is read. tls: how receivers are called; None: in clear.
    """

    def __init__(
        self,
        *,
        secret: str,
        engine: KVSource,
        counters: TransferCounters,
        limits: TransferLimits,
        settings: TransferSettings | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._engine = engine
        self._counters = counters
        self._limits = limits
        self.lines = Lines(
            secret=secret,
            engine=engine,
            counters=counters,
            limits=limits,
            settings=settings or TransferSettings(),
            tls=tls,
        )

    async def push(self, order: PushOrder, computed: Computed) -> Pushed:
        """Send KV as it is computed and return once the receiver accepted it. Cancelling aborts the fill there.

        Raises:
            TandemError: the receiver's refusal, or TRANSFER_FAILED.
        """
        fill: _Fill | None = None
        try:
            async with asyncio.timeout(self._limits.open_s):
                fill = await self._open(order)
            await self._until_verdict(fill, self._feed(fill, computed))
        except BaseException as cause:
            error = as_tandem_error(cause, receiver_at(order.target))
            if fill is None and isinstance(cause, asyncio.CancelledError):
                fill = await self._open_to_abort(order)
            if fill is not None:
                await self._give_up(fill, error)
            if not isinstance(cause, Exception):
                raise
            self._counters.fail("sender", error.code)
            raise error from cause
        self.lines.keep(fill.line)
        transport = fill.line.carrier.transport
        self._counters.fills_sent[transport] += 1
        return Pushed(tokens=fill.tokens, bytes=fill.bytes, busy_s=fill.busy_s, transport=transport)

    async def preflight(self, target: Address, size_bytes: int) -> PairReport:
        """See `preflight.preflight`."""
        return await preflight(self.lines, self._engine, target, size_bytes, self._limits)

    async def close(self) -> None:
        """Close idle connections. Pushes under way are their callers' to cancel."""
        self.lines.close()

    # -- opened ----------------------------------------------------------------------------------

    async def _open(self, order: PushOrder) -> _Fill:
        """A fill that the receiver agreed to; a kept connection that turns out dead is replaced once."""
        kept = self.lines.take(order.target)
        if kept is not None:
            try:
                return await self._ask(kept, order)
            except OSError as error:
                log.info("kv transfer: kept connection was dead", request_id=order.request_id, error=str(error))
        return await self._ask(await self.lines.connect(order.target), order)

    async def _open_to_abort(self, order: PushOrder) -> _Fill | None:
        """Cancelled before the fill was open: the receiver still has to hear that nothing will come."""
        with contextlib.suppress(OSError, TandemError):
            async with asyncio.timeout(self._limits.abort_s):
                return await self._open(order)
        return None

    async def _ask(self, line: Line, order: PushOrder) -> _Fill:
        info = self._engine.info
        opening = wire.Open(
            ticket_id=order.ticket_id,
            fingerprint=info.fingerprint,
            tokens=len(order.token_ids),
            prompt_digest=wire.digest_of_prompt(order.token_ids),
            wire_dtype=line.carrier.wire_dtype,
        )
        try:
            await line.main.send(opening)
            opened = await answer(line.main, wire.Opened, order.ticket_id)
            wanted = needed(info.layers, info.windows, len(order.token_ids), opened.start)
            fill = _Fill(order, line, wanted, links=[line.main], tokens=opened.start)
            await self._spread(fill, opened.key)
        except BaseException:
            line.close()
            raise
        return fill

    async def _spread(self, fill: _Fill, key: bytes) -> None:
        """Let further connections carry a big fill, too."""
        size = sum(map(len, fill.wanted)) * self._engine.info.kv_bytes_per_token // self._engine.info.layers
        if isinstance(fill.line.carrier, InFrames) and size >= _FRAMES_TO_SPREAD * self._limits.frame_bytes:
            await self.lines.widen(fill.line)
            for link in fill.line.helpers:
                await link.send(wire.Join(ticket_id=fill.order.ticket_id, key=key))
                fill.links.append(link)

    # -- fed ---------------------------------------------------------------------------------------

    async def _until_verdict(self, fill: _Fill, feeding: Awaitable[None]) -> None:
        """Feed the fill and listen at once, so that a refusal in the middle stops it."""
        feed = asyncio.ensure_future(feeding)
        verdict = asyncio.ensure_future(answer(fill.line.main, wire.Accepted, fill.order.ticket_id))
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

    async def _feed(self, fill: _Fill, computed: Computed) -> None:
        every_layer = range(self._engine.info.layers)
        while not isinstance(item := await computed.get(), FirstTokens):
            if isinstance(item, TandemError):
                raise item
            began = time.monotonic()
            await self._send(fill, item.layers or every_layer, item.start, item.end)
            fill.tokens = max(fill.tokens, item.end)
            fill.busy_s += time.monotonic() - began
        commit = wire.Commit(
            ticket_id=fill.order.ticket_id,
            tokens=fill.tokens,
            bytes=fill.bytes,
            digest=fill.digest.value,
            first_tokens=item.token_ids,
        )
        async with asyncio.timeout(self._limits.frame_s):
            await fill.line.main.send(commit)

    async def _send(self, fill: _Fill, layers: range, start: int, end: int) -> None:
        pieces = list(fill.line.carrier.cut(fill.order.handle, fill.wanted, layers, start, end))
        shares = [pieces[number :: len(fill.links)] for number in range(len(fill.links))]
        tasks = [
            asyncio.ensure_future(self._send_share(fill, link, share))
            for link, share in zip(fill.links, shares, strict=True)
            if share
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_share(self, fill: _Fill, link: Link, pieces: list[Slice]) -> None:
        for piece in pieces:
            load = fill.line.carrier.load(fill.order.handle, piece, link.seed)
            data = wire.Data(
                ticket_id=fill.order.ticket_id,
                first_layer=piece.layers.start,
                end_layer=piece.layers.stop,
                start=piece.start,
                end=piece.end,
                checksum=load.checksum,
                slot=load.slot,
            )
            async with asyncio.timeout(self._limits.frame_s):
                await link.send(data, load.payload)
            fill.digest.add(data)
            fill.bytes += load.bytes
            self._counters.bytes_sent += load.bytes

    async def _give_up(self, fill: _Fill, error: TandemError) -> None:
        """Abort at the receiver: by message where the connection still can, else by ending the connection."""
        try:
            if not fill.line.main.broken:
                with contextlib.suppress(OSError):
                    async with asyncio.timeout(self._limits.abort_s):
                        abort = wire.Abort(ticket_id=fill.order.ticket_id, code=error.code, reason=error.message)
                        await fill.line.main.send(abort)
        finally:
            fill.line.close()


def receiver_at(target: Address) -> str:
    return f"decode worker at {target.host}:{target.port}"


async def answer(link: Link, kind: type[A], ticket_id: str) -> A:
    """Wait for the receiver's `kind` for this ticket; its refusal is raised."""
    try:
        header, _ = await link.receive(max_payload=0)
    except LinkClosed as error:
        raise LinkClosed("the receiver closed the connection") from error
    if isinstance(header, wire.Refused):
        raise wire.error_of(header.code, header.message)
    if not isinstance(header, kind) or header.ticket_id != ticket_id:
        raise TandemError(ErrorCode.TRANSFER_FAILED, f"the receiver sent {type(header).__name__} out of turn")
    return header
