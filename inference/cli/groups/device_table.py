"""Devices in a table; each comes with its node."""

from __future__ import annotations

from inference.cli.output import Column
from inference.cli.sizes import percent, size
from inference.contracts.views.fleet import DeviceView, NodeView

OnNode = tuple[NodeView, DeviceView]


def device_name(each: OnNode) -> str:
    return f"{each[0].name}/{each[1].device_id}"


def condition(device: DeviceView) -> str:
    """Why it is not to be used, or that it may be."""
    if device.missing:
        return "missing"
    if device.fault:
        return device.fault
    if device.maintenance:
        return f"maintenance{f': {device.maintenance_note}' if device.maintenance_note else ''}"
    return f"reserved for {device.reserved_for}" if device.reserved_for else "ok"


def _memory(each: OnNode) -> str:
    return f"{size(each[1].memory_used) or '?'} of {size(each[1].memory_total) or '?'}"


def _unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:.0f} {unit}"


DEVICE_COLUMNS = (
    Column("DEVICE", device_name),
    Column("NAME", lambda each: each[1].name),
    Column("IN USE", lambda each: each[1].worker_id is not None),
    Column("MEMORY", _memory, right=True),
    Column("BUSY", lambda each: percent(each[1].utilization), right=True),
    Column("TEMPERATURE", lambda each: _unit(each[1].temperature_c, "C"), right=True),
    Column("POWER", lambda each: _unit(each[1].power_w, "W"), right=True),
    Column("LABELS", lambda each: each[1].labels),
    Column("CONDITION", lambda each: condition(each[1])),
)
