"""What the two ends of a hand-off share: bounds, settings, counts, and what they ask of an engine.

The contract, whatever carries the bytes:

*   Both ends prove that they know the cluster secret before any ticket is named.
*   KV reaches the blocks of a ticket only while that ticket is alive, and a ticket counts as committed only after
    fingerprint, prompt, token count and checksums were verified. Nothing is ever decoded from KV that was not.
*   A fill ends in exactly one of: accepted, refused, aborted. In the last two the receiver has given the ticket's
    blocks back. A lost connection, a late peer and a cancelled call are aborts.
*   Every refusal is a `TandemError` on both sides and counted once per side, by its code.
*   A pair that can't use the transport it should uses the next one, and that is counted, too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.states import KVTransport
from inference.engine.interface import Digest, EngineInfo, KVHandle, KVMemory, Progress


class TransferLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds, and bounds.

    open_s: connect, authenticate and open a fill. frame_s: one frame to leave. verdict_s: commit until accepted.
    abort_s: telling the peer of an abort or a refusal. idle_s: the sender closes a connection unused for so long;
    receiver_idle_s: the receiver one that is silent for so long. frame_bytes: most KV of a Data frame.
    shared_frame_bytes: the same where frames only say where it lies. connections: most at once on a receiver.
    idle_connections: most kept per target by a sender.
    """

    open_s: float = 5.0
    frame_s: float = 10.0
    verdict_s: float = 10.0
    abort_s: float = 1.0
    idle_s: float = 30.0
    receiver_idle_s: float = 300.0
    frame_bytes: int = 1024 * 1024
    shared_frame_bytes: int = 4 * 1024 * 1024
    connections: int = 512
    idle_connections: int = 8


class TransferSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How KV is to travel.

    transports: may be used, the best first; TCP always may. streams: TCP connections that carry one fill.
    wire_dtype: "bfloat16" halves the bytes of float32 KV over TCP; answers may then differ from those of one process,
    so it is off ("") unless asked for. by_layer: send each layer once it is computed, not the whole chunk afterwards.
    """

    transports: tuple[KVTransport, ...] = (KVTransport.SHARED_MEMORY, KVTransport.TCP)
    streams: int = 2
    wire_dtype: str = ""
    by_layer: bool = False


@dataclass(slots=True)
class TransferCounters:
    """What one worker's transfers did since it started.

    fills_sent, fills_received: accepted ones, by the transport that they took. failures: by (side, code). fallbacks:
    connections that had to take another transport than the one they should, by (that one, the one taken).
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    fills_sent: Counter[KVTransport] = field(default_factory=Counter)
    fills_received: Counter[KVTransport] = field(default_factory=Counter)
    failures: Counter[tuple[str, ErrorCode]] = field(default_factory=Counter)
    fallbacks: Counter[tuple[KVTransport, KVTransport]] = field(default_factory=Counter)

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
    """An accepted fill. tokens: of the prompt that it covers. bytes: that travelled, over `transport`. busy_s: time
    spent reading KV and sending it, without waiting for the model."""

    tokens: int
    bytes: int
    busy_s: float
    transport: KVTransport


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

    @property
    def kv_memory(self) -> KVMemory | None: ...

    def reserve(self, capacity: int) -> KVHandle: ...

    def release(self, handle: KVHandle) -> None: ...

    def kv_spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]: ...

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> Sequence[memoryview]: ...


class KVStore(Protocol):
    """The part of an `Engine` that a receiver needs."""

    @property
    def info(self) -> EngineInfo: ...

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None: ...
