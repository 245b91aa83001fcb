"""The receiver's rules: what a frame does to a ticket. No socket here.

The order that keeps blocks safe: a frame's place is claimed, then its ticket is found alive, then its bytes are written
and compared with their checksum, with no waiting between the last look at the ticket and the writing. What was claimed
can't be written twice, and a ticket counts as committed when all that is needed was claimed, written and compared.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import structlog
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.states import KVTransport
from inference.transfer import wire
from inference.transfer.base import KVStore, TransferCounters
from inference.transfer.memory import PeerMemory
from inference.transfer.narrow import check_wire_dtype, widened
from inference.transfer.places import Coverage, Slice, needed
from inference.transfer.tickets import HeldTicket, TicketTable

log = structlog.get_logger()

_REFUSALS_PER_CONNECTION = 64
_KEY_BYTES = 16


class Peer(Protocol):
    """One authenticated connection, as its fills see it. refused: tickets whose frames are dropped without a word,
    since they were under way when the refusal was sent. memory: the sender's, where it was agreed on."""

    refused: set[str]
    memory: PeerMemory | None

    @property
    def seed(self) -> int: ...

    async def tell(self, header: wire.Header) -> None: ...


@dataclass(eq=False, slots=True)
class _Fill:
    ticket: HeldTicket
    owner: Peer
    coverage: Coverage
    wire_dtype: str
    transport: KVTransport
    key: bytes = field(default_factory=lambda: secrets.token_bytes(_KEY_BYTES))
    joined: set[Peer] = field(default_factory=set)
    digest: wire.FrameDigest = field(default_factory=wire.FrameDigest)
    bytes: int = 0
    commit: wire.Commit | None = None  # came before the last frames of other connections

    @property
    def parties(self) -> set[Peer]:
        return {self.owner, *self.joined}


class Fills:
    """All fills of one receiver. Frames of several tickets may interleave on a connection."""

    def __init__(self, engine: KVStore, tickets: TicketTable, counters: TransferCounters) -> None:
        self._engine = engine
        self._tickets = tickets
        self._counters = counters
        self._open: dict[str, _Fill] = {}

    async def handle(self, peer: Peer, header: wire.Header, payload: memoryview) -> None:
        """Act on one frame of `peer` and answer it, if it has an answer.

        A fault of a single fill is answered with `Refused` and ends that fill alone.

        Raises:
            TandemError: the connection itself can't go on.
            OSError: the answer could not be sent.
        """
        if not isinstance(header, wire.Open | wire.Join | wire.Data | wire.Commit | wire.Abort):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"{type(header).__name__} is not for a receiver")
        if header.ticket_id in peer.refused:
            return
        try:
            match header:
                case wire.Open():
                    await self._begin(peer, header)
                case wire.Join():
                    self._join(peer, header)
                case wire.Data():
                    await self._write(peer, header, payload)
                case wire.Commit():
                    await self._commit(peer, header)
                case wire.Abort():
                    self._abort(peer, header)
        except TandemError as error:
            await self._refuse(peer, header.ticket_id, error)

    def abandon(self, peer: Peer, error: TandemError) -> None:
        """The connection is gone: end what was open on it or joined by it."""
        for ticket_id, fill in list(self._open.items()):
            if peer in fill.parties:
                del self._open[ticket_id]
                self._silence(ticket_id, fill)
                self._end(ticket_id, fill, error)

    # -- one kind of frame each ----------------------------------------------------------------------

    async def _begin(self, peer: Peer, header: wire.Open) -> None:
        ticket = self._tickets.open(header.ticket_id)
        info = self._engine.info
        held, tokens = ticket.handle.cached_tokens, len(ticket.token_ids)
        fill = self._open[header.ticket_id] = _Fill(
            ticket=ticket,
            owner=peer,
            coverage=Coverage(needed(info.layers, info.windows, tokens, held)),
            wire_dtype=header.wire_dtype,
            transport=KVTransport.TCP if peer.memory is None else peer.memory.transport,
        )
        if header.fingerprint != info.fingerprint:
            raise TandemError(
                ErrorCode.FINGERPRINT_MISMATCH,
                f"KV of model {header.fingerprint!r} can't be used by a worker of {info.fingerprint!r}",
            )
        if header.tokens != tokens:
            raise TandemError(ErrorCode.TOKEN_COUNT_MISMATCH, f"{header.tokens} tokens offered, {tokens} reserved")
        if header.prompt_digest != wire.digest_of_prompt(ticket.token_ids):
            raise TandemError(ErrorCode.CHECKSUM_MISMATCH, "the KV offered belongs to another prompt")
        check_wire_dtype(header.wire_dtype, info.kv_dtype)
        await peer.tell(wire.Opened(ticket_id=header.ticket_id, start=held, key=fill.key))

    def _join(self, peer: Peer, header: wire.Join) -> None:
        fill = self._open.get(header.ticket_id)
        if fill is None and self._tickets.remembers(header.ticket_id):
            peer.refused.add(header.ticket_id)  # ended while this was under way; its sender heard of it elsewhere
            return
        if fill is None or not hmac.compare_digest(fill.key, header.key):
            raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {header.ticket_id!r} can't be joined by that key")
        fill.joined.add(peer)

    async def _write(self, peer: Peer, header: wire.Data, payload: memoryview) -> None:
        fill = self._current(peer, header.ticket_id)
        piece = Slice(range(header.first_layer, header.end_layer), header.start, header.end)
        fill.coverage.add(piece)
        if header.slot is None:
            self._write_payload(peer, fill, piece, header.checksum, payload)
            taken = payload.nbytes
        else:
            taken = await self._copy(peer, fill, piece, header, header.slot)
        fill.digest.add(header)
        fill.bytes += taken
        self._counters.bytes_received += taken
        self._tickets.renew(fill.ticket)
        if fill.commit is not None and fill.bytes >= fill.commit.bytes:
            await self._conclude(fill, fill.commit)

    def _write_payload(self, peer: Peer, fill: _Fill, piece: Slice, checksum: int, payload: memoryview) -> None:
        if wire.checksum([payload], peer.seed) != checksum:
            raise _damaged(piece)
        data = widened(payload) if fill.wire_dtype else payload
        with _typed():
            self._engine.import_kv(fill.ticket.handle, piece.layers, piece.start, piece.end, data)

    async def _copy(self, peer: Peer, fill: _Fill, piece: Slice, header: wire.Data, slot: int) -> int:
        """Copy from the sender's memory, and compare what then lies in our own blocks: the sender's may change."""
        if peer.memory is None:
            raise TandemError(ErrorCode.TRANSFER_FAILED, "no memory was agreed on that KV could be read from")
        digest = xxhash.xxh3_64(seed=peer.seed)
        taken = 0
        for part in self._parts(piece, peer.memory.piece_bytes):
            source = await peer.memory.read(part.layers, slot, part.end - part.start)
            if self._current(peer, header.ticket_id) is not fill:
                raise TandemError(ErrorCode.TICKET_UNKNOWN, "the fill ended while its KV was read")
            with _typed():
                self._engine.import_kv(fill.ticket.handle, part.layers, part.start, part.end, source, digest)
            taken += source.nbytes
        if digest.intdigest() != header.checksum:
            raise _damaged(piece)
        return taken

    def _parts(self, piece: Slice, limit: int) -> Iterator[Slice]:
        """`piece` cut by layers, into parts of `limit` bytes or one layer."""
        info = self._engine.info
        layers = max(1, limit * info.layers // (info.kv_bytes_per_token * (piece.end - piece.start)))
        for first in range(piece.layers.start, piece.layers.stop, layers):
            yield Slice(range(first, min(first + layers, piece.layers.stop)), piece.start, piece.end)

    async def _commit(self, peer: Peer, header: wire.Commit) -> None:
        fill = self._current(peer, header.ticket_id)
        if fill.joined and fill.bytes < header.bytes:
            fill.commit = header  # frames on other connections are still under way
            return
        await self._conclude(fill, header)

    async def _conclude(self, fill: _Fill, header: wire.Commit) -> None:
        wanted = len(fill.ticket.token_ids)
        if not fill.coverage.complete or header.tokens != wanted:
            raise TandemError(
                ErrorCode.TOKEN_COUNT_MISMATCH,
                f"{header.tokens} tokens were committed of a prompt of {wanted}, and {fill.coverage.missing}",
            )
        if (header.bytes, header.digest) != (fill.bytes, fill.digest.value):
            raise TandemError(
                ErrorCode.CHECKSUM_MISMATCH,
                f"the sum over {fill.bytes} bytes that arrived is not that of {header.bytes} bytes sent",
            )
        self._check_first_tokens(header.first_tokens, fill.ticket.sampling.n)
        del self._open[header.ticket_id]
        self._tickets.commit(fill.ticket, header.first_tokens)
        self._counters.fills_received[fill.transport] += 1
        await fill.owner.tell(wire.Accepted(ticket_id=header.ticket_id))

    def _check_first_tokens(self, tokens: tuple[int, ...], answers: int) -> None:
        if len(tokens) != answers:
            raise TandemError(ErrorCode.TOKEN_COUNT_MISMATCH, f"{len(tokens)} first tokens of {answers} answers")
        if any(not 0 <= token < self._engine.info.vocab_size for token in tokens):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"first tokens {tokens} are not all in the vocabulary")

    def _abort(self, peer: Peer, header: wire.Abort) -> None:
        fill = self._open.get(header.ticket_id)
        if fill is not None and peer is fill.owner:
            del self._open[header.ticket_id]
            self._silence(header.ticket_id, fill)
            peer.refused.discard(header.ticket_id)  # nothing of it is under way behind its own abort
            self._end(header.ticket_id, fill, wire.error_of(header.code, header.reason))

    # -- small pieces ----------------------------------------------------------------------------

    def _current(self, peer: Peer, ticket_id: str) -> _Fill:
        """The open fill of a ticket that is still alive."""
        self._tickets.find(ticket_id)
        fill = self._open.get(ticket_id)
        if fill is None or peer not in fill.parties:
            raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {ticket_id!r} is not open on this connection")
        return fill

    async def _refuse(self, peer: Peer, ticket_id: str, error: TandemError) -> None:
        fill = self._open.get(ticket_id)
        if fill is not None and peer in fill.parties:
            del self._open[ticket_id]
            self._silence(ticket_id, fill)
            self._end(ticket_id, fill, error)
            hears = fill.owner
        else:
            peer.refused.add(ticket_id)
            self._counters.fail("receiver", error.code)
            log.warning("kv fill refused", ticket=ticket_id, code=error.code, reason=error.message)
            hears = peer
        if len(peer.refused) > _REFUSALS_PER_CONNECTION:
            raise TandemError(ErrorCode.TRANSFER_FAILED, "too many refusals on one connection")
        await hears.tell(wire.Refused(code=error.code, message=error.message, ticket_id=ticket_id))

    def _silence(self, ticket_id: str, fill: _Fill) -> None:
        for party in fill.parties:
            party.refused.add(ticket_id)

    def _end(self, ticket_id: str, fill: _Fill, error: TandemError) -> None:
        """Give the blocks back. What ended the ticket elsewhere, such as a lease that ran out, was counted there."""
        if fill.ticket.ended is None:
            self._counters.fail("receiver", error.code)
            self._tickets.abort(fill.ticket, error)
        log.warning(
            "kv fill ended",
            request_id=fill.ticket.request_id,
            ticket=ticket_id,
            code=error.code,
            reason=error.message,
        )


class _typed:
    """What an engine raises while KV is written ends the fill, not the connection."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError):
            raise TandemError(ErrorCode.TOKEN_COUNT_MISMATCH, str(error)) from error
        if isinstance(error, Exception) and not isinstance(error, TandemError):
            raise TandemError(ErrorCode.ENGINE_FAILED, f"KV could not be written: {error}") from error


def _damaged(piece: Slice) -> TandemError:
    return TandemError(ErrorCode.CHECKSUM_MISMATCH, f"KV of tokens [{piece.start}, {piece.end}) was damaged on its way")
