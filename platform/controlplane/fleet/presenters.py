"""Nodes, devices and links as the console sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controlplane.core.clock import iso, iso_or_none
from controlplane.fleet.models import Device, JoinToken, Link, Node
from controlplane.fleet.selectors import device_holders
from inference.contracts.states import DeviceKind, NodeDesired, NodePhase
from inference.contracts.views.fleet import DeviceView, JoinTokenOpenView, LinkView, NodeView

#: A clock that is off by more than this is worth a warning; a report also takes its time to arrive.
CLOCK_OFFSET_S = 5.0


def node_views(nodes: Iterable[Node]) -> list[NodeView]:
    """Any number of nodes of `selectors.node_list`, at a constant number of queries."""
    found = list(nodes)
    holders = device_holders(found)
    return [node_view(node, holders) for node in found]


def node_view(node: Node, holders: Mapping[int, str]) -> NodeView:
    """The node with its devices (prefetch "devices" for lists).

    holders: device row -> worker id, see `selectors.device_holders`. A device that its node no longer reports is shown
    while a worker still holds it, or an operator wants something of it.
    """
    shown = [device for device in node.devices.all() if not device.missing or device.pk in holders or _is_kept(device)]
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
        desired=NodeDesired(node.desired),
        cordon_reason=node.cordon_reason,
        labels=tuple(node.labels),
        clock_offset_s=node.clock_offset_s,
        driver=node.driver,
        interfaces=tuple(node.interfaces),
        engines=dict(node.engines),
        disk_free=node.disk_free,
        disk_total=node.disk_total,
        workers=getattr(node, "worker_count", 0),
        warnings=tuple(_warnings(node)),
    )


def _is_kept(device: Device) -> bool:
    return bool(device.labels or device.maintenance or device.reserved_for)


def _warnings(node: Node) -> Iterator[str]:
    if node.desired == NodeDesired.RETIRED:
        return
    if node.refused_spec:
        yield f"It goes on as told before: {node.refused_spec}"
    if node.clock_offset_s is not None and abs(node.clock_offset_s) > CLOCK_OFFSET_S:
        way = "ahead of" if node.clock_offset_s > 0 else "behind"
        yield f"Its clock is {abs(node.clock_offset_s):.0f} s {way} ours. Nothing depends on it, but its logs tell it."
    if not node.secured:
        yield "Its messages carry no proof of who sends them: it joined under an earlier release. Upgrade its agent."
    if node.scoped is None:
        yield "Its Redis credentials reach everything: it joined under an earlier release. Restart its agent."
    elif not node.scoped:
        yield "Its Redis credentials reach everything: the Redis server gives nodes no users of their own (ACL)."


def _device_view(device: Device, holder: str | None) -> DeviceView:
    return DeviceView(
        id=device.pk,
        device_id=device.device_id,
        kind=DeviceKind(device.kind),
        index=device.index,
        name=device.name,
        memory_total=device.memory_total,
        memory_used=device.memory_used,
        utilization=device.utilization,
        sm_use=device.sm_use,
        memory_bandwidth_use=device.memory_bandwidth_use,
        temperature_c=device.temperature_c,
        power_w=device.power_w,
        power_limit_w=device.power_limit_w,
        cores=device.core_numbers,
        worker_id=holder,
        missing=device.missing,
        labels=tuple(device.labels),
        maintenance=device.maintenance,
        maintenance_note=device.maintenance_note,
        reserved_for=device.reserved_for,
        parent=device.parent or None,
        nvlink_peers=tuple(device.nvlink_peers),
        pcie_gen=device.pcie_gen,
        pcie_width=device.pcie_width,
        ecc_uncorrected=device.ecc_uncorrected,
        xid=device.xid,
        fault=device.fault,
    )


def device_view(device: Device) -> DeviceView:
    return _device_view(device, device_holders([device.node]).get(device.pk))


def link_view(link: Link) -> LinkView:
    return LinkView(
        source=link.source.name,
        target=link.target.name,
        bytes_per_s=link.bytes_per_s,
        latency_s=link.latency_s,
        measured_at=iso_or_none(link.measured_at),
        error=link.error,
    )


def join_token_view(token: JoinToken) -> JoinTokenOpenView:
    return JoinTokenOpenView(
        id=token.pk,
        note=token.note,
        created_by=token.created_by,
        created_at=iso(token.created_at),
        expires_at=iso(token.expires_at),
    )
