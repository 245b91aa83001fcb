"""Nodes and devices as the console sees them."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.clock import iso, iso_or_none
from controlplane.fleet.models import Device, Node
from inference.contracts.console import DeviceView, NodeView
from inference.contracts.states import DeviceKind, NodePhase


def node_view(node: Node, holders: Mapping[int, str]) -> NodeView:
    """The node with its devices (prefetch "devices" for lists).

    holders: device row -> worker id, see `selectors.device_holders`. A device that its node no longer reports is shown
    only while a worker still holds it.
    """
    shown = [device for device in node.devices.all() if not device.missing or device.pk in holders]
    return NodeView(
        id=str(node.pk),
        name=node.name,
        hostname=node.hostname,
        address=node.address,
        phase=NodePhase(node.phase),
        agent_version=node.agent_version,
        cpu_cores=node.cpu_cores,
        memory_total=node.memory_total,
        memory_used=node.memory_used,
        generation=node.generation,
        observed_generation=node.observed_generation,
        joined_at=iso(node.joined_at),
        last_report_at=iso_or_none(node.last_report_at),
        devices=tuple(_device_view(device, holders.get(device.pk)) for device in shown),
    )


def _device_view(device: Device, holder: str | None) -> DeviceView:
    return DeviceView(
        device_id=device.device_id,
        kind=DeviceKind(device.kind),
        index=device.index,
        name=device.name,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        utilization=device.utilization,
        temperature_c=device.temperature_c,
        power_w=device.power_w,
        cores=device.core_numbers,
        worker_id=holder,
        missing=device.missing,
    )
