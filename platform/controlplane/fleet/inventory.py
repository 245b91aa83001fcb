"""Writing what devices a node has, as it reports them."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.fleet.models import Device, Node
from inference.contracts.reports import DeviceReport

#: What is only known while the device is reported.
_MEASURED = ("memory_used", "utilization", "temperature_c", "power_w")

_WRITTEN = ["kind", "index", "name", "cores", "memory_total", *_MEASURED, "missing"]


def devices_record(node: Node, reports: Sequence[DeviceReport]) -> None:
    """Make the node's device rows say what `reports` says.

    A device that is not reported any more is marked missing and what was measured of it becomes unknown; its row
    stays, since a worker may hold it and since it may come back.
    """
    seen = {report.device_id: report for report in reports}
    Device.objects.bulk_create(
        [_device(node, report) for report in seen.values()],
        update_conflicts=True,
        unique_fields=["node", "device_id"],
        update_fields=_WRITTEN,
    )
    gone = Device.objects.filter(node=node, missing=False).exclude(device_id__in=seen)
    gone.update(missing=True, **dict.fromkeys(_MEASURED))


def _device(node: Node, report: DeviceReport) -> Device:
    return Device(
        node=node,
        device_id=report.device_id[:100],
        kind=report.kind,
        index=report.index,
        name=report.name[:200],
        cores=",".join(str(core) for core in report.cores),
        memory_total=report.memory_total,
        memory_used=report.memory_used,
        utilization=report.utilization,
        temperature_c=report.temperature_c,
        power_w=report.power_w,
        missing=False,
    )
