"""Nodes and devices in every state."""

from __future__ import annotations

from frontend.testing.scene.devices import cpu_slots, gpus, mig_parts
from frontend.testing.scene.measures import GIB, iso
from inference.contracts.states import DeviceKind, NodeDesired, NodePhase
from inference.contracts.views.fleet import DeviceView, NodeView
from inference.contracts.views.pools import DeploymentView


def nodes(current: list[DeploymentView]) -> list[NodeView]:
    holders = {
        (one.node_id, device): one.id
        for deployment in current
        for group in deployment.pools
        for one in group.workers
        for device in one.device_ids
    }
    return [
        _node("desk", "10.0.0.4", 8, 24, cpu_slots(holders), NodePhase.READY, labels=("office",)),
        _node(
            "rack-2-04",
            "10.0.2.14",
            64,
            512,
            gpus(holders),
            NodePhase.READY,
            labels=("rack=r2", "switch=s1"),
            desired=NodeDesired.DRAINING,
            cordon_reason="New power supply at noon",
            workers=6,
        ),
        _node("rack-2-05", "10.0.2.15", 64, 512, (), NodePhase.LOST, labels=("rack=r2",)),
        _node(
            "rack-3-01",
            "10.0.3.11",
            96,
            1024,
            mig_parts(),
            NodePhase.READY,
            labels=("rack=r3",),
            desired=NodeDesired.CORDONED,
            cordon_reason="Memory test",
            clock_offset_s=-41.2,
            warnings=("Its clock is 41 s behind ours. Nothing depends on it, but its logs tell it.",),
        ),
        _node("old-1", "10.0.9.9", 16, 64, (), NodePhase.LOST, desired=NodeDesired.RETIRED),
    ]


def _node(
    name: str,
    address: str,
    cores: int,
    gib: int,
    devices: tuple[DeviceView, ...],
    phase: NodePhase,
    **changes: object,
) -> NodeView:
    lost = phase == NodePhase.LOST
    values: dict[str, object] = {
        "id": name,
        "name": name,
        "hostname": f"{name}.lab",
        "address": address,
        "phase": phase,
        "agent_version": "0.1.0",
        "cpu_cores": cores,
        "memory_total": gib * GIB,
        "memory_used": None if lost else int(0.41 * gib * GIB),
        "generation": 12,
        "observed_generation": 12,
        "joined_at": iso(90000),
        "last_report_at": iso(740 if lost else 1),
        "devices": devices,
        "clock_offset_s": None if lost else 0.02,
        "driver": "550.90.07" if devices and devices[0].kind == DeviceKind.GPU else "",
        "interfaces": (f"eth0 {address}", "ib0 192.168.7.4"),
        "engines": {"native": "0.1.0"},
        "disk_total": 1800 * GIB,
        "disk_free": 640 * GIB,
    }
    return NodeView(**{**values, **changes})
