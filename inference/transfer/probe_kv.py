"""What stands for an engine and its tickets while a network link is measured: KV of the size of an 8-billion-parameter
model's, whose bytes are sent, checked and thrown away."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.engine.interface import Digest, EngineInfo, KVHandle, KVMemory
from inference.transfer.tickets import HeldTicket, TicketTable

LAYERS = 32
BYTES_PER_TOKEN = 128 * 1024

#: Number of the fill that is measured; the one before it brings the connection up to speed.
WARM_UP, LAST = 1, 2

_LEASE_S = 60.0
_TICKETS = 8
_SAMPLING = Sampling(max_tokens=1)


def ticket_id(measurement: str, number: int, tokens: int) -> str:
    """Both sides know the tickets of a measurement without having talked: they name it, a number and their size."""
    return f"{measurement}/{number}/{tokens}"


def prompt_of(ticket: str) -> list[int]:
    return [0] * int(ticket.rpartition("/")[2])


INFO = EngineInfo(
    model_name="link",
    fingerprint="link-probe-1",
    context_length=2**31,
    vocab_size=1,
    block_size=16,
    kv_blocks_total=2**27,
    kv_bytes_per_token=BYTES_PER_TOKEN,
    layers=LAYERS,
)


class ProbeEngine:
    """See `KVSource` and `KVStore`; its KV can't be read by another process, since the network is to be measured."""

    kv_memory: KVMemory | None = None

    def __init__(self) -> None:
        self.info = INFO
        self._bytes = memoryview(bytearray(0))

    def reserve(self, capacity: int) -> KVHandle:
        return KVHandle(handle_id=0, capacity=capacity)

    def release(self, handle: KVHandle) -> None:
        pass

    def kv_spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]:
        return [(start, end - start)]

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> list[memoryview]:
        size = len(layers) * (end - start) * (BYTES_PER_TOKEN // LAYERS)
        if len(self._bytes) < size:
            self._bytes = memoryview(bytearray(size))
        return [self._bytes[:size]]

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        expected = len(layers) * (end - start) * (BYTES_PER_TOKEN // LAYERS)
        if data.nbytes != expected:
            raise ValueError(f"{data.nbytes} bytes came where {expected} fit")
        if digest is not None:
            digest.update(data.data if isinstance(data, np.ndarray) else data)


class ProbeTickets(TicketTable):
    """Tickets of one measurement, made when they are named and gone once they are filled.

    measured: set when the ticket numbered `LAST` was filled.
    """

    def __init__(self, *, measurement: str, most_tokens: int) -> None:
        super().__init__(
            reserve=lambda capacity, prompt, *, answers, salt: KVHandle(handle_id=0, capacity=capacity),
            release=lambda handle: None,
            lease_s=_LEASE_S,
            limit=_TICKETS,
            clock=time.monotonic,
        )
        self.measured = asyncio.Event()
        self._measurement = measurement
        self._most_tokens = most_tokens

    def open(self, ticket_id: str) -> HeldTicket:
        """Raises `TandemError(TICKET_UNKNOWN)` for a ticket of something else, or one too big."""
        head, _, tokens = ticket_id.rpartition("/")
        named = head.rpartition("/")[0] == self._measurement
        if not named or not tokens.isdigit() or not 0 < int(tokens) <= self._most_tokens:
            raise TandemError(ErrorCode.TICKET_UNKNOWN, f"ticket {ticket_id!r} is not of this measurement")
        if ticket_id not in self._live:
            issued = self.issue(ticket_id, prompt_of(ticket_id), _SAMPLING)
            self._live[ticket_id] = self._live.pop(issued.ticket_id)
            issued.ticket_id = ticket_id
        return super().open(ticket_id)

    def commit(self, ticket: HeldTicket, first_tokens: tuple[int, ...]) -> None:
        super().commit(ticket, first_tokens)
        self.close(ticket)
        if ticket.ticket_id.rsplit("/", 2)[1] == str(LAST):
            self.measured.set()
