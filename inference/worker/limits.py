"""Every deadline and bound of a worker, and how it hands KV over, in one place, so that a test or an operator can set
them."""

from __future__ import annotations

import msgspec

from inference.transfer.base import TransferLimits, TransferSettings


class WorkerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds.

    lease_s: a ticket ends so long after its last renewal. handoff_wait_s: longest that a generate call waits for KV.
    handoff_s: longest from the first token until the receiver's verdict. kv_wait_s: longest that a prefill waits for
    free blocks. write_s: longest that a caller may take to accept an event. max_tickets: most at once; None for as
    many as the running batch holds, so that no ticket waits for a place in it. max_prefills: most at once.
    max_embeddings: requests for them at once.
    inline_chars: longer prompts are tokenised in a thread. heartbeat_s: an engine loop that did not turn for so long is
    stuck. switch_s: longest that the engine may take to change its role; after that the process ends, because nobody
    knows what it is. window_s: length of a telemetry window. failure_linger_s: how long a failed start stays readable
    before the process ends. stop_s: longest that handlers and engine may take to end. max_body_bytes: of a request.
    handoff: how KV travels; None: as the spec's settings say.
    """

    lease_s: float = 20.0
    handoff_wait_s: float = 300.0
    handoff_s: float = 30.0
    kv_wait_s: float = 10.0
    write_s: float = 60.0
    max_tickets: int | None = None
    max_prefills: int = 64
    max_embeddings: int = 16
    inline_chars: int = 20_000
    heartbeat_s: float = 60.0
    switch_s: float = 120.0
    window_s: float = 1.0
    failure_linger_s: float = 2.0
    stop_s: float = 3.0
    max_body_bytes: int = 32 * 1024 * 1024
    transfer: TransferLimits = TransferLimits()
    handoff: TransferSettings | None = None
