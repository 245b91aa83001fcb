"""What every transport of KV offers: a receiver on workers that write answers, a sender on prefill workers.

The contract, whatever carries the bytes:

*   Both ends prove that they know the cluster secret before any ticket is named.
*   KV reaches the blocks of a ticket only while that ticket is alive, and a ticket counts as committed only after
    fingerprint, prompt, token count and checksums were verified. Nothing is ever decoded from KV that was not.
*   A fill ends in exactly one of: accepted, refused, aborted. In the last two the receiver has given the ticket's
    blocks back. A lost connection, a late peer and a cancelled call are aborts.
*   Every refusal is a `TandemError` on both sides and counted once per side, by its code.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.engine.interface import EngineInfo, KVHandle, Progress


class TransferLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds, and bounds.

    open_s: connect, authenticate and open a fill. frame_s: one frame to leave. verdict_s: commit until accepted.
    abort_s: telling the peer of an abort or a refusal. idle_s: the sender closes a connection unused for so long;
    receiver_idle_s: the receiver one that is silent for so long. frame_bytes: size of a Data frame. connections: most
    at once on a receiver. idle_connections: most kept per target by a sender.
    """

    open_s: float = 5.0
    frame_s: float = 10.0
    verdict_s: float = 10.0
    abort_s: float = 1.0
    idle_s: float = 30.0
    receiver_idle_s: float = 300.0
    frame_bytes: int = 1024 * 1024
    connections: int = 512
    idle_connections: int = 8


@dataclass(slots=True)
class TransferCounters:
    """What one worker's transfers did since it started. failures: by (side, code)."""

    bytes_sent: int = 0
    bytes_received: int = 0
    fills_sent: int = 0
    fills_received: int = 0
    failures: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)

    def fail(self, side: str, code: ErrorCode) -> None:
        """Count one failure on `side` ("sender" or "receiver"). A client that left is none."""
        if code is not ErrorCode.CANCELLED:
            self.failures[side, code] += 1


@dataclass(frozen=True, slots=True)
class PushOrder:
    """What is to be sent where. handle: the sender's own blocks, held by the caller until the push is over."""

    request_id: str
    ticket_id: str
    target: Address
    token_ids: list[int]
    handle: KVHandle


@dataclass(frozen=True, slots=True)
class Pushed:
    """An accepted fill. busy_s: time spent exporting and sending, without waiting for the model."""

    tokens: int
    bytes: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """The prompt is read and the answers go on after these tokens, one of each: the fill may be committed."""

    token_ids: tuple[int, ...]


#: What feeds a push: ranges as they are computed, in order and the last one `done`, then the first tokens. An error
#: ends the fill with that cause.
Computed = asyncio.Queue[Progress | FirstTokens | TandemError]


class KVSource(Protocol):
    """The part of an `Engine` that a sender needs."""

    @property
    def info(self) -> EngineInfo: ...

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> memoryview: ...


class KVStore(Protocol):
    """The part of an `Engine` that a receiver needs."""

    @property
    def info(self) -> EngineInfo: ...

    def import_kv(self, handle: KVHandle, layers: range, start: int, end: int, data: memoryview) -> None: ...


class KVSender(Protocol):
    async def push(self, order: PushOrder, computed: Computed) -> Pushed:
        """Send KV as it is computed and return once the receiver accepted it. Cancelling aborts the fill there.

        Raises:
            TandemError: the receiver's refusal, or TRANSFER_FAILED.
        """

    async def close(self) -> None:
        """Close idle connections. Pushes under way are their callers' to cancel."""


class KVReceiver(Protocol):
    async def listen(self, host: str, port: int = 0) -> int:
        """Bind and start receiving into the ticket table; the bound port."""

    async def close(self) -> None:
        """Stop listening and end all connections, which aborts open fills."""
