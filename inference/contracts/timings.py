"""What is measured of requests, workers and seconds.

Definitions (used everywhere):
    TTFT       router has the whole request until it forwards the first content-bearing chunk
    TPOT       (last token - first token) / (tokens - 1), one number per request; undefined for one token
    ITL        each gap between consecutive tokens
    first gap  the gap between token 1 and token 2: it carries the exposed hand-off
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from inference.contracts.histogram import Histogram
from inference.contracts.states import KVTransport, PrefillPath, Role


class Latency(StrEnum):
    """Durations kept as histograms.

    QUEUE, at a worker that reads the prompt: asked until first computed, the wait for KV blocks included; at a decode
    worker after a hand-off: KV committed until its first step. PREFILL: first chunk until first token. TRANSFER: busy
    time of the sender. STEP: one step of an engine.
    """

    TTFT = "ttft"
    TPOT = "tpot"
    ITL = "itl"
    FIRST_GAP = "first_gap"
    E2E = "e2e"
    QUEUE = "queue"
    PREFILL = "prefill"
    TRANSFER = "transfer"
    STEP = "step"


class Counter(StrEnum):
    """Things counted within a window.

    PROMPT_TOKENS: at a worker those that it computed, at a router all. CACHED_TOKENS: of prompts that a worker read,
    those that it had KV of and did not compute.
    """

    RECEIVED = "received"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    PROMPT_TOKENS = "prompt_tokens"
    CACHED_TOKENS = "cached_tokens"
    OUTPUT_TOKENS = "output_tokens"
    HANDOFFS = "handoffs"
    HANDOFF_FAILURES = "handoff_failures"
    LOCAL_PREFILLS = "local_prefills"
    TRANSFER_BYTES = "transfer_bytes"


class Gauge(StrEnum):
    """Levels at the end of a window. They add up over the workers of a pool. A missing gauge is not known."""

    IN_FLIGHT = "in_flight"
    RUNNING = "running"
    WAITING = "waiting"
    WAITING_TOKENS = "waiting_tokens"
    KV_BLOCKS_USED = "kv_blocks_used"
    KV_BLOCKS_TOTAL = "kv_blocks_total"


class Window(msgspec.Struct, kw_only=True):
    """One second of one source.

    second: unix second in which it was closed, by the clock of the process that publishes it to the stream.
    source: process that measured ("router:<id>", "worker:<worker id>"). deployment: name. pool_id and role: the pool
    for a worker's window; None for a router's of whole requests. A router also gives each pool the latencies that it
    decides: TTFT to the pool that made the first token; TPOT, ITL and first gap to the pool that wrote the rest.
    revision: set (with pool_id None) in a router's further window of what one revision of the deployment did: COMPLETED
    counts the answers that its workers wrote, FAILED each time that one of them failed a request, also one that was
    then answered elsewhere; TTFT and TPOT are its workers'. It is never added to the window of the whole deployment.
    """

    second: int
    source: str
    deployment: str
    pool_id: str | None = None
    role: Role | None = None
    revision: int | None = None
    latencies: dict[Latency, Histogram] = msgspec.field(default_factory=dict)
    counters: dict[Counter, int] = msgspec.field(default_factory=dict)
    gauges: dict[Gauge, float] = msgspec.field(default_factory=dict)

    def observe(self, latency: Latency, seconds: float, times: int = 1) -> None:
        self.latencies.setdefault(latency, Histogram()).add(seconds, times)

    def count(self, counter: Counter, amount: int = 1) -> None:
        self.counters[counter] = self.counters.get(counter, 0) + amount

    def absorb(self, other: Window) -> None:
        """Add `other` to this window: histograms and counters by addition, gauges by sum over sources."""
        for latency, histogram in other.latencies.items():
            self.latencies.setdefault(latency, Histogram()).merge(histogram)
        for counter, amount in other.counters.items():
            self.count(counter, amount)
        for gauge, level in other.gauges.items():
            self.gauges[gauge] = self.gauges.get(gauge, 0) + level

    @property
    def empty(self) -> bool:
        return not (self.latencies or self.counters or self.gauges)


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of a request on its way to the first token. The segments of a request add up to its TTFT."""

    name: str
    seconds: float


class RequestTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One closed request as the router saw it. Durations in seconds.

    segments: add up to ttft_s; what no worker explains is a segment of its own ("network").
    handoff_s: first token until KV accepted; decode_wait_s: KV accepted until first decode step;
    both lie after the first token, inside first_gap_s. transfer_s: in which handoff_bytes were sent, much of it while
    the prompt was still read. transport: how they travelled.
    """

    request_id: str
    deployment: str
    path: PrefillPath
    prefill_worker: str | None
    decode_worker: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: str
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float
    segments: tuple[Segment, ...]
    first_gap_s: float | None = None
    handoff_s: float | None = None
    handoff_bytes: int | None = None
    decode_wait_s: float | None = None
    retries: int = 0
    transfer_s: float | None = None
    transport: KVTransport | None = None
