"""Tickets: a worker's promises to hold KV blocks, each with a lease, and the one place where they are given back."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn, Protocol

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.engine.interface import KVHandle, TokenIds

_REMEMBERED = 1024


class TicketState(StrEnum):
    """Life of a ticket. Its blocks are held in the first four states and free in the last three.

        RESERVED ──(open)──> FILLING ──(verified commit)──> COMMITTED ──┐
            │                                                           ├──(answer)──> ANSWERING ──> CLOSED
            └────────────────────(local prefill)────────────────────────┘
        RESERVED, FILLING, COMMITTED ──(lease ran out)──> EXPIRED
        any of the first four ──(refused KV, lost connection, release, client left)──> ABORTED

    Arriving KV frames renew the lease; an open generate call holds it.
    """

    RESERVED = "reserved"
    FILLING = "filling"
    COMMITTED = "committed"
    ANSWERING = "answering"
    CLOSED = "closed"
    EXPIRED = "expired"
    ABORTED = "aborted"


LEASED = frozenset({TicketState.RESERVED, TicketState.FILLING, TicketState.COMMITTED})


class Reserve(Protocol):
    """`Engine.reserve`."""

    def __call__(self, capacity: int, prompt: TokenIds, *, answers: int, salt: str) -> KVHandle: ...


@dataclass(eq=False, slots=True)
class HeldTicket:
    """One live ticket.

    first_tokens, committed_at: set by the commit. ended: why it ended before its answer was whole. settled: set when it
    is committed or over. on_end: told of an end that came from elsewhere.
    """

    ticket_id: str
    request_id: str
    token_ids: list[int]
    sampling: Sampling
    handle: KVHandle
    priority: int
    expires_at: float
    state: TicketState = TicketState.RESERVED
    callers: int = 0
    first_tokens: tuple[int, ...] | None = None
    committed_at: float | None = None
    ended: TandemError | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    on_end: Callable[[TandemError], None] | None = None


class TicketTable:
    """All tickets of one worker. Not thread-safe: used from the event loop only.

    reserve, release: the engine's. limit: most live tickets. clock: monotonic seconds. on_expired: called once for each
    lease that ran out, whoever notices.
    """

    def __init__(
        self,
        *,
        reserve: Reserve,
        release: Callable[[KVHandle], None],
        lease_s: float,
        limit: int,
        clock: Callable[[], float],
        on_expired: Callable[[], None] = lambda: None,
    ) -> None:
        self.lease_s = lease_s
        self._reserve = reserve
        self._release = release
        self._limit = limit
        self._clock = clock
        self._on_expired = on_expired
        self._live: dict[str, HeldTicket] = {}
        self._over: OrderedDict[str, TandemError] = OrderedDict()

    def __len__(self) -> int:
        return len(self._live)

    def count(self, state: TicketState) -> int:
        return sum(ticket.state is state for ticket in self._live.values())

    def issue(
        self, request_id: str, token_ids: list[int], sampling: Sampling, *, priority: int = 0, cache_salt: str = ""
    ) -> HeldTicket:
        """Blocks for prompt and answer, all or nothing, under a new ticket.

        Raises:
            TandemError: QUEUE_FULL when there are too many tickets, and what `Engine.reserve` raises.
        """
        if len(self._live) >= self._limit:
            raise TandemError(ErrorCode.QUEUE_FULL, f"{self._limit} tickets are open, which is this worker's limit")
        capacity = len(token_ids) - sampling.answered + sampling.max_tokens
        handle = self._reserve(capacity, token_ids, answers=sampling.n, salt=cache_salt)
        ticket = HeldTicket(
            ticket_id=secrets.token_hex(16),
            request_id=request_id,
            token_ids=token_ids,
            sampling=sampling,
            handle=handle,
            priority=priority,
            expires_at=self._clock() + self.lease_s,
        )
        self._live[ticket.ticket_id] = ticket
        return ticket

    def find(self, ticket_id: str) -> HeldTicket:
        """The live ticket of this id.

        Raises:
            TandemError: TICKET_EXPIRED, TICKET_UNKNOWN, or the error that ended it.
        """
        ticket = self._live.get(ticket_id)
        if ticket is not None and self._due(ticket):
            self._expire(ticket)
            ticket = None
        if ticket is None:
            raise self._over.get(ticket_id) or TandemError(
                ErrorCode.TICKET_UNKNOWN, f"no ticket {ticket_id!r} here: it was never issued or is long gone"
            )
        return ticket

    def remembers(self, ticket_id: str) -> bool:
        """Whether a ticket of this id was here not long ago."""
        return ticket_id in self._over

    def open(self, ticket_id: str) -> HeldTicket:
        """Begin the one fill that a ticket allows."""
        ticket = self.find(ticket_id)
        if ticket.state is not TicketState.RESERVED:
            self._refuse_state(ticket, "takes no KV")
        ticket.state = TicketState.FILLING
        self.renew(ticket)
        return ticket

    def commit(self, ticket: HeldTicket, first_tokens: tuple[int, ...]) -> None:
        """All KV of `ticket` is here and verified."""
        ticket.state = TicketState.COMMITTED
        ticket.first_tokens = first_tokens
        ticket.committed_at = self._clock()
        self.renew(ticket)
        ticket.settled.set()

    def answer(self, ticket: HeldTicket, after: TicketState) -> None:
        """Begin the one answer that a ticket allows; it must stand at `after`."""
        if ticket.state is not after:
            self._refuse_state(ticket, f"must be {after}")
        ticket.state = TicketState.ANSWERING

    def renew(self, ticket: HeldTicket) -> None:
        ticket.expires_at = self._clock() + self.lease_s

    @contextlib.contextmanager
    def held(self, ticket: HeldTicket) -> Iterator[None]:
        """The lease does not run out while the block runs; afterwards a full lease is left."""
        ticket.callers += 1
        try:
            yield
        finally:
            ticket.callers -= 1
            self.renew(ticket)

    def close(self, ticket: HeldTicket) -> None:
        """The answer is whole: give the blocks back."""
        used = TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {ticket.ticket_id!r} was used already")
        self._end(ticket, TicketState.CLOSED, used)

    def abort(self, ticket: HeldTicket, error: TandemError) -> None:
        """Give the blocks back before the answer was whole; later calls for the ticket get `error`. A ticket that is
        over stays as it is."""
        if ticket.ticket_id in self._live:
            ticket.ended = error
            self._end(ticket, TicketState.ABORTED, error)

    def abort_all(self, error: TandemError) -> None:
        for ticket in list(self._live.values()):
            self.abort(ticket, error)

    def expire_due(self) -> None:
        """End the tickets whose lease ran out."""
        for ticket in [ticket for ticket in self._live.values() if self._due(ticket)]:
            self._expire(ticket)

    def _due(self, ticket: HeldTicket) -> bool:
        return ticket.state in LEASED and not ticket.callers and self._clock() >= ticket.expires_at

    def _expire(self, ticket: HeldTicket) -> None:
        ticket.ended = TandemError(
            ErrorCode.TICKET_EXPIRED, f"the lease of {self.lease_s:g} s of ticket {ticket.ticket_id!r} ran out"
        )
        self._end(ticket, TicketState.EXPIRED, ticket.ended)
        self._on_expired()

    def _end(self, ticket: HeldTicket, state: TicketState, error: TandemError) -> None:
        del self._live[ticket.ticket_id]
        ticket.state = state
        self._release(ticket.handle)
        self._over[ticket.ticket_id] = error
        while len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)
        ticket.settled.set()
        if ticket.on_end is not None and ticket.ended is not None:
            ticket.on_end(ticket.ended)

    def _refuse_state(self, ticket: HeldTicket, why: str) -> NoReturn:
        raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {ticket.ticket_id!r} is {ticket.state} and {why}")
