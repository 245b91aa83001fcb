"""Two stub engines with a sender and a receiver between them, and nothing else of a worker."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import TextPrompt
from inference.contracts.reports import Address
from inference.contracts.sampling import Sampling
from inference.contracts.states import KVTransport
from inference.testing.stub_engine import StubEngine
from inference.testing.stub_settings import StubSettings
from inference.transfer import wire
from inference.transfer.base import FirstTokens, Pushed, PushOrder, TransferCounters, TransferLimits, TransferSettings
from inference.transfer.handshake import greet_receiver
from inference.transfer.link import Link
from inference.transfer.places import needed, slices
from inference.transfer.receiver import KVReceiver
from inference.transfer.sender import KVSender
from inference.transfer.tickets import HeldTicket, TicketTable
from inference.worker.sink import RequestSink

SECRET = "of-this-cluster"
SAMPLING = Sampling(max_tokens=8, temperature=0.0)
PROMPT = "a prompt of more than three blocks, so that several frames travel"
QUICK = TransferLimits(open_s=2, frame_s=0.5, verdict_s=0.5, abort_s=0.5, idle_s=0.3, frame_bytes=2000)

OVER_TCP = TransferSettings(transports=(KVTransport.TCP,))
BY_MEMORY = TransferSettings()


@dataclass
class Rig:
    prefill: StubEngine
    decode: StubEngine
    tickets: TicketTable
    sender: KVSender
    receiver: KVReceiver
    target: Address
    sent: TransferCounters
    received: TransferCounters
    handles: list = field(default_factory=list)

    def reserve(self, prompt: str = PROMPT) -> HeldTicket:
        return self.tickets.issue("req-1", self.decode.tokenize(TextPrompt(text=prompt)), SAMPLING)

    async def push(
        self, ticket: HeldTicket, *, ticket_id: str | None = None, target: Address | None = None, sender=None
    ) -> Pushed:
        """Compute the ticket's prompt on the prefill engine and hand it over; its blocks are released at the end."""
        handle = self.prefill.reserve(len(ticket.token_ids))
        sink = RequestSink()
        order = PushOrder(
            request_id="req-1",
            ticket_id=ticket_id or ticket.ticket_id,
            target=target or self.target,
            token_ids=ticket.token_ids,
            handle=handle,
        )
        self.prefill.prefill(handle, ticket.token_ids, SAMPLING, sink, report_progress=True)
        first = asyncio.create_task(_first(sink))
        try:
            return await (sender or self.sender).push(order, sink.computed)
        finally:
            first.cancel()
            self.prefill.release(handle)

    async def link(self) -> Link:
        """An authenticated connection to write frames on by hand; KV is their payload."""
        link = await Link.connect(self.target)
        await greet_receiver(link, SECRET)
        return link

    def opening(self, ticket: HeldTicket, **changed: object) -> wire.Open:
        fields = {
            "ticket_id": ticket.ticket_id,
            "fingerprint": self.decode.info.fingerprint,
            "tokens": len(ticket.token_ids),
            "prompt_digest": wire.digest_of_prompt(ticket.token_ids),
        }
        return wire.Open(**(fields | changed))

    def frames(self, ticket: HeldTicket, seed: int = 0) -> tuple[list[tuple[wire.Data, bytes]], wire.Commit]:
        """All frames of a right fill of the ticket on a connection of `seed`: computed here, to be sent by hand."""
        info = self.prefill.info
        handle = self.prefill.reserve(len(ticket.token_ids))
        self.prefill.kv.compute(handle, ticket.token_ids, 0, len(ticket.token_ids))
        frames, digest = [], wire.FrameDigest()
        tokens = len(ticket.token_ids)
        wanted = needed(info.layers, info.windows, tokens, 0)
        size = info.kv_bytes_per_token // info.layers
        for piece in slices(wanted, range(info.layers), 0, tokens, size, 1000):
            payload = b"".join(self.prefill.export_kv(handle, piece.layers, piece.start, piece.end))
            data = wire.Data(
                ticket_id=ticket.ticket_id,
                first_layer=piece.layers.start,
                end_layer=piece.layers.stop,
                start=piece.start,
                end=piece.end,
                checksum=wire.checksum([payload], seed),
            )
            digest.add(data)
            frames.append((data, payload))
        self.prefill.release(handle)
        commit = wire.Commit(
            ticket_id=ticket.ticket_id,
            tokens=len(ticket.token_ids),
            bytes=sum(len(payload) for _, payload in frames),
            digest=digest.value,
            first_tokens=(260,),
        )
        return frames, commit

    def free(self) -> tuple[int, int]:
        """KV blocks in use on prefill and on decode."""
        return self.prefill.load().kv_blocks_used, self.decode.load().kv_blocks_used

    async def until_free(self) -> None:
        async with asyncio.timeout(3):
            while self.free() != (0, 0):
                await asyncio.sleep(0.005)


async def _first(sink: RequestSink) -> None:
    with contextlib.suppress(TandemError):  # the push hears of it, too
        sink.computed.put_nowait(FirstTokens(((await sink.next_token()).token_id,)))


@contextlib.asynccontextmanager
async def rig(
    *,
    limits: TransferLimits = QUICK,
    sender_secret: str = SECRET,
    prefill_settings: StubSettings | None = None,
    decode_settings: StubSettings | None = None,
    lease_s: float = 30.0,
    clock=time.monotonic,
    sender_tls: ssl.SSLContext | None = None,
    receiver_tls: ssl.SSLContext | None = None,
    settings: TransferSettings = OVER_TCP,
    most_tickets: int = 64,
) -> AsyncIterator[Rig]:
    prefill, decode = StubEngine(prefill_settings), StubEngine(decode_settings)
    sent, received = TransferCounters(), TransferCounters()
    tickets = TicketTable(
        reserve=decode.reserve,
        release=decode.release,
        lease_s=lease_s,
        limit=most_tickets,
        clock=clock,
        on_expired=lambda: received.fail("receiver", ErrorCode.TICKET_EXPIRED),
    )
    receiver = KVReceiver(
        secret=SECRET, engine=decode, tickets=tickets, counters=received, limits=limits, tls=receiver_tls
    )
    sender = KVSender(
        secret=sender_secret, engine=prefill, counters=sent, limits=limits, settings=settings, tls=sender_tls
    )
    prefill.start()
    decode.start()
    target = Address(host="127.0.0.1", port=await receiver.listen("127.0.0.1"))
    try:
        yield Rig(prefill, decode, tickets, sender, receiver, target, sent, received)
    finally:
        await sender.close()
        await receiver.close()
        prefill.stop()
        decode.stop()


async def refusal(link: Link) -> TandemError:
    """The refusal that comes next on a hand-driven link."""
    async with asyncio.timeout(2):
        header, _ = await link.receive()
    assert isinstance(header, wire.Refused), header
    return wire.error_of(header.code, header.message)
