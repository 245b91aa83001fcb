"""Observed state, as a node reports it. Every report is complete, so a lost one costs nothing."""

from __future__ import annotations

import msgspec

from inference.contracts.abilities import Abilities
from inference.contracts.models import ModelShape
from inference.contracts.states import DeviceKind, FetchState, Role, WorkerPhase


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process listens. Written by agents only; nothing a client sends is ever dialled."""

    host: str
    port: int


class DeviceReport(msgspec.Struct, frozen=True, kw_only=True):
    """One device as its node sees it. None means "not known", never zero.

    cores: the processor cores of a CPU slot. memory_total, memory_used: bytes. utilization: 0..1. power_w: watts.
    memory_bandwidth_use: 0..1, share of memory bandwidth used, or of the time in which it was, as the card tells.
    sm_use: 0..1, share of the multiprocessors that computed (utilization is only the share of time with a kernel).
    parent: device_id of the GPU that this MIG instance is a part of. pci: bus id. nvlink_peers: device_ids reached by
    NVLink. pcie_gen, pcie_width: of the link as it is now. ecc_uncorrected: since the driver was loaded. xid: the last
    XID error code seen since the agent started. fault: why the device is not to be used; empty is healthy.
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
    memory_bandwidth_use: float | None = None
    power_limit_w: float | None = None
    parent: str | None = None
    pci: str | None = None
    nvlink_peers: tuple[str, ...] = ()
    pcie_gen: int | None = None
    pcie_width: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    fault: str = ""
    sm_use: float | None = None


class WeightsReport(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of one model on this node. size_bytes, fetched_bytes: None while not known. reason: why FAILED.
    shape: what the files say of the model, once they are here; None: not known."""

    path: str
    revision: str
    state: FetchState
    size_bytes: int | None = None
    fetched_bytes: int | None = None
    reason: str = ""
    shape: ModelShape | None = None


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """Where one measurement of `LinkSpec` stands on this node.

    address: where the receiving side listens. bytes_per_s, latency_s: the sending side's result; latency is the median
    of small round trips. error: why it ended without a result. Nothing given: it is still going on.
    """

    measurement_id: str
    address: Address | None = None
    bytes_per_s: float | None = None
    latency_s: float | None = None
    error: str = ""


class WorkerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is doing now.

    running, waiting: requests in the batch and before it. waiting_tokens: prompt tokens not yet computed.
    kv_blocks_used: blocks in use or reserved. kv_block_tokens: tokens that one has room for. tickets: live
    reservations. handoffs: transfers under way.
    kv_bytes_received, kv_bytes_sent: since the process has its role.
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
    kv_block_tokens: int | None = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as its node sees it.

    attempts: starts of this incarnation so far. next_start_s: seconds until the next start (BACKOFF only).
    drain_left_s: seconds until a drain becomes a stop. reason: one sentence on why it is in this phase.
    log_tail: last lines of the process's log. progress: 0..1 while loading, when known.
    role: what the process is now, which during a switch is not yet what its spec says.
    refused_role: the role that it could not be switched to; it serves on in `role`, and `reason` says why.
    revision: of the spec that its process was started from. abilities: as in `WorkerStatus`.
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
    attempts: int = 0
    next_start_s: float | None = None
    drain_left_s: float | None = None
    reason: str = ""
    log_tail: tuple[str, ...] = ()
    load: WorkerLoad | None = None
    refused_role: Role | None = None
    revision: int = 1
    abilities: Abilities | None = None


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a node knows of itself.

    boot_id: changes with each start of the agent; sequence: grows within one boot_id. Together they order reports
    without any clock. observed_generation: the newest NodeSpec applied.
    clock: unix seconds by the node's own clock as the report was made; shown as an offset, never used to decide.
    driver: of the GPUs. interfaces: network interfaces as "name address". engines: name -> version of those installed.
    disk_free: bytes where the agent keeps its data and fetched weights.
    refused_spec: why the last NodeSpec that came was refused as a whole; empty once one is accepted.
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
    clock: float | None = None
    driver: str = ""
    interfaces: tuple[str, ...] = ()
    engines: dict[str, str] = {}
    disk_free: int | None = None
    disk_total: int | None = None
    weights: tuple[WeightsReport, ...] = ()
    links: tuple[LinkReport, ...] = ()
    refused_spec: str = ""


class NodeHello(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent posts with its join token, and again at each later start of it (`POST /nodes/hello`).

    name: what people shall call the node; None means the host name. node_id: who it is already; empty at the join.
    A later hello carries `auth.node_authorization` of its exact body; an agent that has no node key yet, since it
    joined under an earlier release, sends `auth.bearer(cluster_secret, auth.PURPOSE_NODE_HELLO)` instead, once.
    """

    hostname: str
    address: str
    agent_version: str
    devices: tuple[DeviceReport, ...]
    cpu_cores: int
    memory_total: int
    name: str | None = None
    driver: str = ""
    interfaces: tuple[str, ...] = ()
    engines: dict[str, str] = {}
    node_id: str = ""


class NodeWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane answers to a hello: everything the agent needs from then on.

    redis_url: with credentials that reach this node's own queue and what all nodes share, and nothing else.
    node_key: key of the message authentication between this node and the control plane (hex); known to these two only.
    """

    node_id: str
    name: str
    redis_url: str
    cluster_secret: str
    report_interval_s: float
    node_key: str = ""


class LogReply(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a `LogRequest`: the last lines, oldest first, safe to show. error: why there are none."""

    lines: tuple[str, ...] = ()
    error: str = ""
