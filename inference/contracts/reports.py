"""Observed state, as a node reports it. Every report is complete, so a lost one costs nothing."""

from __future__ import annotations

import msgspec

from inference.contracts.states import DeviceKind, Role, WorkerPhase


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process listens. Written by agents only; nothing a client sends is ever dialled."""

    host: str
    port: int


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device as its node sees it. None means "not known", never zero.

    cores: the processor cores of a CPU slot. memory_total, memory_used: bytes. utilization: 0..1. power_w: watts.
    """

    device_id: str
    kind: DeviceKind
    index: int
    name: str
    memory_total: int | None = None
    memory_used: int | None = None
    utilization: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    cores: tuple[int, ...] = ()


class WorkerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is doing now.

    running, waiting: requests in the batch and before it. waiting_tokens: prompt tokens not yet computed.
    kv_blocks_used: blocks in use or reserved. tickets: live reservations. handoffs: transfers under way.
    kv_bytes_received, kv_bytes_sent: since the process started.
    """

    running: int
    waiting: int
    waiting_tokens: int
    kv_blocks_used: int
    kv_blocks_total: int
    tickets: int = 0
    handoffs: int = 0
    kv_bytes_received: int = 0
    kv_bytes_sent: int = 0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as its node sees it.

    attempts: starts of this incarnation so far. next_start_s: seconds until the next start (BACKOFF only).
    drain_left_s: seconds until a drain becomes a stop. reason: one sentence on why it is in this phase.
    log_tail: last lines of the process's log. progress: 0..1 while loading, when known.
    """

    worker_id: str
    incarnation: str
    role: Role
    phase: WorkerPhase
    pid: int | None = None
    http: Address | None = None
    transfer: Address | None = None
    fingerprint: str | None = None
    context_length: int | None = None
    kv_bytes_per_token: int | None = None
    attempts: int = 0
    next_start_s: float | None = None
    drain_left_s: float | None = None
    reason: str = ""
    log_tail: tuple[str, ...] = ()
    load: WorkerLoad | None = None


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a node knows of itself.

    boot_id: changes with each start of the agent; sequence: grows within one boot_id. Together they order reports
    without any clock. observed_generation: the newest NodeSpec applied.
    """

    node_id: str
    boot_id: str
    sequence: int
    observed_generation: int
    hostname: str
    address: str
    agent_version: str
    devices: tuple[DeviceReport, ...]
    workers: tuple[WorkerReport, ...]
    cpu_cores: int
    memory_total: int
    memory_used: int


class NodeHello(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent posts with its join token. name: what people shall call the node; None means the host name."""

    hostname: str
    address: str
    agent_version: str
    devices: tuple[DeviceReport, ...]
    cpu_cores: int
    memory_total: int
    name: str | None = None


class NodeWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane answers to a hello: everything the agent needs from then on."""

    node_id: str
    name: str
    redis_url: str
    cluster_secret: str
    report_interval_s: float
