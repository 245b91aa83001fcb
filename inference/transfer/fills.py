"""The receiver's rules: what a frame does to a ticket. No socket and no waiting here, so a lease can't run out between
the check of a frame and the writing of its bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer import wire
from inference.transfer.base import KVStore, TransferCounters
from inference.transfer.tickets import HeldTicket, TicketTable

log = structlog.get_logger()

_REFUSALS_PER_CONNECTION = 64


@dataclass(eq=False, slots=True)
class _Fill:
    ticket: HeldTicket
    coverage: wire.Coverage
    digest: wire.FrameDigest = field(default_factory=wire.FrameDigest)
    bytes: int = 0


class Fills:
    """The fills of one authenticated connection. Frames of several tickets may interleave."""

    def __init__(self, engine: KVStore, tickets: TicketTable, counters: TransferCounters) -> None:
        self._engine = engine
        self._tickets = tickets
        self._counters = counters
        self._open: dict[str, _Fill] = {}
        self._refused: set[str] = set()

    def handle(self, header: wire.Header, payload: memoryview) -> wire.Header | None:
        """Act on one frame; the answer to send, if it has one.

        A fault of a single fill is answered with `Refused` and ends that fill alone.

        Raises:
            TandemError: the connection itself can't go on.
        """
        if not isinstance(header, wire.Open | wire.Data | wire.Commit | wire.Abort):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"{type(header).__name__} is not for a receiver")
        if header.ticket_id in self._refused:
            return None  # was under way when the refusal was sent
        try:
            match header:
                case wire.Open():
                    return self._begin(header)
                case wire.Data():
                    return self._write(header, payload)
                case wire.Commit():
                    return self._commit(header)
                case wire.Abort():
                    return self._abort(header)
        except TandemError as error:
            return self._refuse(header.ticket_id, error)

    def abandon(self, error: TandemError) -> None:
        """The connection is gone: end what was open on it."""
        while self._open:
            ticket_id, fill = self._open.popitem()
            if fill.ticket.ended is None:
                self._count(ticket_id, error, fill)
                self._tickets.abort(fill.ticket, error)

    def _begin(self, header: wire.Open) -> wire.Header:
        ticket = self._tickets.open(header.ticket_id)
        info = self._engine.info
        self._open[header.ticket_id] = _Fill(ticket, wire.Coverage(info.layers, len(ticket.token_ids)))
        if header.fingerprint != info.fingerprint:
            raise TandemError(
                ErrorCode.FINGERPRINT_MISMATCH,
                f"KV of model {header.fingerprint!r} can't be used by a worker of {info.fingerprint!r}",
            )
        if header.tokens != len(ticket.token_ids):
            raise TandemError(
                ErrorCode.TOKEN_COUNT_MISMATCH, f"{header.tokens} tokens offered, {len(ticket.token_ids)} reserved"
            )
        if header.prompt_digest != wire.digest_of_prompt(ticket.token_ids):
            raise TandemError(ErrorCode.CHECKSUM_MISMATCH, "the KV offered belongs to another prompt")
        return wire.Opened(ticket_id=header.ticket_id)

    def _write(self, header: wire.Data, payload: memoryview) -> wire.Header | None:
        fill = self._current(header.ticket_id)
        if wire.checksum(payload) != header.checksum:
            raise TandemError(
                ErrorCode.CHECKSUM_MISMATCH, f"KV of tokens [{header.start}, {header.end}) was damaged on its way"
            )
        fill.coverage.add(header)
        try:
            layers = range(header.first_layer, header.end_layer)
            self._engine.import_kv(fill.ticket.handle, layers, header.start, header.end, payload)
        except ValueError as error:
            raise TandemError(ErrorCode.TOKEN_COUNT_MISMATCH, str(error)) from error
        except TandemError:
            raise
        except Exception as error:  # whatever a device may raise ends this fill, not the connection
            raise TandemError(ErrorCode.ENGINE_FAILED, f"KV could not be written: {error}") from error
        fill.digest.add(header)
        fill.bytes += payload.nbytes
        self._counters.bytes_received += payload.nbytes
        self._tickets.renew(fill.ticket)
        return None

    def _commit(self, header: wire.Commit) -> wire.Header:
        fill = self._current(header.ticket_id)
        wanted = len(fill.ticket.token_ids)
        if not fill.coverage.tokens == header.tokens == wanted:
            raise TandemError(
                ErrorCode.TOKEN_COUNT_MISMATCH,
                f"{fill.coverage.tokens} tokens arrived and {header.tokens} were committed of a prompt of {wanted}",
            )
        if (header.bytes, header.digest) != (fill.bytes, fill.digest.value):
            raise TandemError(
                ErrorCode.CHECKSUM_MISMATCH,
                f"the sum over {fill.bytes} bytes that arrived is not that of {header.bytes} bytes sent",
            )
        self._check_first_tokens(header.first_tokens, fill.ticket.sampling.n)
        del self._open[header.ticket_id]
        self._tickets.commit(fill.ticket, header.first_tokens)
        self._counters.fills_received += 1
        return wire.Accepted(ticket_id=header.ticket_id)

    def _check_first_tokens(self, tokens: tuple[int, ...], answers: int) -> None:
        if len(tokens) != answers:
            raise TandemError(ErrorCode.TOKEN_COUNT_MISMATCH, f"{len(tokens)} first tokens of {answers} answers")
        if any(not 0 <= token < self._engine.info.vocab_size for token in tokens):
            raise TandemError(ErrorCode.TRANSFER_FAILED, f"first tokens {tokens} are not all in the vocabulary")

    def _abort(self, header: wire.Abort) -> wire.Header | None:
        fill = self._open.pop(header.ticket_id, None)
        if fill is not None and fill.ticket.ended is None:
            error = wire.error_of(header.code, header.reason)
            self._count(header.ticket_id, error, fill)
            self._tickets.abort(fill.ticket, error)
        return None

    def _current(self, ticket_id: str) -> _Fill:
        """The open fill of a ticket that is still alive."""
        self._tickets.find(ticket_id)
        fill = self._open.get(ticket_id)
        if fill is None:
            raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {ticket_id!r} is not open on this connection")
        return fill

    def _refuse(self, ticket_id: str, error: TandemError) -> wire.Header:
        fill = self._open.pop(ticket_id, None)
        self._count(ticket_id, error, fill)
        if fill is not None:
            self._tickets.abort(fill.ticket, error)
        self._refused.add(ticket_id)
        if len(self._refused) > _REFUSALS_PER_CONNECTION:
            raise TandemError(ErrorCode.TRANSFER_FAILED, "too many refusals on one connection")
        return wire.Refused(code=error.code, message=error.message, ticket_id=ticket_id)

    def _count(self, ticket_id: str, error: TandemError, fill: _Fill | None) -> None:
        """fill: None when the ticket was refused before one was open. What ended its ticket elsewhere, such as a lease
        that ran out, was counted there."""
        if fill is None or fill.ticket.ended is not error:
            self._counters.fail("receiver", error.code)
        log.warning(
            "kv fill ended",
            request_id=fill.ticket.request_id if fill is not None else None,
            ticket=ticket_id,
            code=error.code,
            reason=error.message,
        )
