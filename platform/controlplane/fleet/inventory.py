"""Writing what devices nodes have, as they report them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import connection

from controlplane.fleet.models import Device, Node
from inference.contracts.reports import DeviceReport

#: What changes all the time and is only known while the device is reported. It is written and shown now and then.
MEASURED = frozenset(
    {
        *("memory_used", "utilization", "sm_use", "memory_bandwidth_use", "temperature_c", "power_w"),
        *("pcie_gen", "pcie_width"),  # a link that has nothing to do slows down
    }
)

#: What the agent says of a device for other reasons than these rows.
_NOT_KEPT = frozenset({"device_id"})


def devices_record(reports: Mapping[Node, Sequence[DeviceReport]]) -> None:
    """Make the device rows of these nodes say what their reports say.

    A device that is not reported any more is marked missing and what was measured of it becomes unknown; its row stays,
    since a worker may hold it and since it may come back.
    """
    rows = {
        (node.pk, report.device_id): _device(node, report) for node, devices in reports.items() for report in devices
    }
    Device.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["node", "device_id"],
        update_fields=_written(),
    )
    missing = [
        pk
        for pk, node_id, device_id in Device.objects.filter(node__in=reports, missing=False).values_list(
            "pk", "node_id", "device_id"
        )
        if (node_id, device_id) not in rows
    ]
    if missing:
        Device.objects.filter(pk__in=missing).update(missing=True, **dict.fromkeys(MEASURED))


def measures_record(reports: Mapping[Node, Sequence[DeviceReport]]) -> None:
    """Write only what is measured of devices that are known to be those of their rows: the usual case, and one plain
    statement, since building rows of it would cost more than all else that a report costs."""
    columns, key = sorted(MEASURED), Node._meta.pk
    rows = [
        (*(getattr(report, column) for column in columns), key.get_db_prep_value(node.pk, connection), report.device_id)
        for node, devices in reports.items()
        for report in devices
    ]
    if not rows:
        return
    quote, changes = connection.ops.quote_name, ", ".join(f"{column} = %s" for column in columns)
    table = quote(Device._meta.db_table)
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {changes} WHERE node_id = %s AND device_id = %s", rows)  # noqa: S608


def _written() -> list[str]:
    """Columns of a device that reports decide."""
    return [*sorted(frozenset(DeviceReport.__struct_fields__) - _NOT_KEPT), "missing"]


def _device(node: Node, report: DeviceReport) -> Device:
    return Device(
        node=node,
        device_id=report.device_id[:100],
        kind=report.kind,
        index=report.index,
        name=report.name[:200],
        cores=",".join(str(core) for core in report.cores),
        parent=(report.parent or "")[:100],
        pci=(report.pci or "")[:64],
        nvlink_peers=list(report.nvlink_peers),
        fault=report.fault,
        ecc_uncorrected=report.ecc_uncorrected,
        xid=report.xid,
        memory_total=report.memory_total,
        memory_used=report.memory_used,
        memory_bandwidth_use=report.memory_bandwidth_use,
        utilization=report.utilization,
        sm_use=report.sm_use,
        temperature_c=report.temperature_c,
        power_w=report.power_w,
        power_limit_w=report.power_limit_w,
        pcie_gen=report.pcie_gen,
        pcie_width=report.pcie_width,
        missing=False,
    )
