"""What a worker tells its agent."""

from __future__ import annotations

import msgspec

from inference.contracts.abilities import Abilities
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.states import KVTransport, Role
from inference.contracts.timings import Window


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of GET /worker/status.

    ready: weights are loaded and a token was generated. draining: no new requests are taken. healthy: the engine loop
    turns. failure: set when the engine can't come up or has died; `fatal` when a restart can't mend it (bad path, not
    a model). abilities: once it is ready; None: it is of an earlier release.
    """

    worker_id: str
    incarnation: str
    role: Role
    ready: bool
    draining: bool
    healthy: bool
    failure: str | None
    fatal: bool
    transfer: Address | None
    fingerprint: str | None
    context_length: int | None
    load: WorkerLoad | None
    abilities: Abilities | None = None


class RoleOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /worker/role: change to `role` with the weights loaded. Answered by the new `WorkerStatus`, or by a
    `WorkerError`: SWITCH_REFUSED when the worker stays what it was, NOT_IDLE when it is not drained yet.

    pool_id: the pool that the worker belongs to from then on, for its windows; None leaves it.
    """

    role: Role
    pool_id: str | None = None


class PreflightOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /worker/preflight, asked of a prefill worker: try a hand-off to the decode worker whose KV receiver
    is `target`, with KV of `size_bytes`. Answered by a `PairReport`."""

    target: Address
    size_bytes: int = 16 * 1024 * 1024


class PairReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether KV can go from one worker to another.

    problems: why it can't, a sentence each; empty when it can. transport: what the two agreed on; None where they never
    spoke. missed: better transports that were to be used and could not, each with its reason. bytes: that were timed,
    from the first one sent until the last one was checked. latency_s: median of small round trips. None: not measured.
    """

    problems: tuple[str, ...] = ()
    transport: KVTransport | None = None
    missed: tuple[str, ...] = ()
    bytes: int | None = None
    bytes_per_s: float | None = None
    latency_s: float | None = None


class ProcessAnnouncement(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker process writes to its announcement file once its ports are bound (the child binds; F40)."""

    worker_id: str
    incarnation: str
    pid: int
    http: Address
    transfer: Address | None


class WindowBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of GET /worker/windows: closed windows since the last call. `second` counts back from now: 0, -1, ...;
    the agent adds its own clock, so one node's windows share one clock."""

    windows: tuple[Window, ...]
