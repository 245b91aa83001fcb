"""Nodes, their devices, the network between them, and the tokens by which they join."""

from __future__ import annotations

import msgspec

from inference.contracts.states import DeviceKind, NodeDesired, NodePhase


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """`worker_id`: who holds it. missing: its node no longer reports it; shown while somebody holds it.

    id: the row, for changing it. reserved_for: name of the only deployment that may have it. fault: why its node says
    that it is not to be used. maintenance: not to be used, for the reason in maintenance_note. The measured fields are
    those of `DeviceReport`.
    """

    device_id: str
    kind: DeviceKind
    index: int
    name: str
    memory_total: int | None
    memory_used: int | None
    utilization: float | None
    temperature_c: float | None
    power_w: float | None
    cores: tuple[int, ...]
    worker_id: str | None
    missing: bool = False
    id: int = 0
    labels: tuple[str, ...] = ()
    maintenance: bool = False
    reserved_for: str = ""
    memory_bandwidth_use: float | None = None
    power_limit_w: float | None = None
    parent: str | None = None
    nvlink_peers: tuple[str, ...] = ()
    pcie_gen: int | None = None
    pcie_width: int | None = None
    ecc_uncorrected: int | None = None
    xid: int | None = None
    fault: str = ""
    sm_use: float | None = None
    maintenance_note: str = ""


class LinkView(msgspec.Struct, frozen=True, kw_only=True):
    """The network from one node to another as last measured; None is not measured."""

    source: str
    target: str
    bytes_per_s: float | None
    latency_s: float | None
    measured_at: str | None
    error: str


class JoinTokenOpenView(msgspec.Struct, frozen=True, kw_only=True):
    """A join token that can still be used, without the token itself, which nobody can read again."""

    id: int
    note: str
    created_by: str
    created_at: str
    expires_at: str


class JoinTokenView(msgspec.Struct, frozen=True, kw_only=True):
    """token: shown this once. command: the one line to run on the new node."""

    token: str
    expires_at: str
    command: str


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """clock_offset_s: the node's clock minus ours when its last report arrived, travel time included (F14).
    labels: "key=value" or "key", for placement. cordon_reason: why it is not active, in the operator's words.
    warnings: what an operator should see to, one sentence each (a clock that is off, shared broker credentials)."""

    id: str
    name: str
    hostname: str
    address: str
    phase: NodePhase
    agent_version: str
    cpu_cores: int | None
    memory_total: int | None
    memory_used: int | None
    generation: int
    observed_generation: int
    joined_at: str
    last_report_at: str | None
    devices: tuple[DeviceView, ...]
    desired: NodeDesired = NodeDesired.ACTIVE
    cordon_reason: str = ""
    labels: tuple[str, ...] = ()
    clock_offset_s: float | None = None
    driver: str = ""
    interfaces: tuple[str, ...] = ()
    engines: dict[str, str] = {}
    disk_free: int | None = None
    disk_total: int | None = None
    workers: int = 0
    warnings: tuple[str, ...] = ()
