"""`tandem devices`: GPUs and CPU slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from inference.cli import arguments, completion, find
from inference.cli.client import Answer
from inference.cli.command import Cli, reads, writes
from inference.cli.group import group
from inference.cli.groups.device_table import DEVICE_COLUMNS, condition, device_name
from inference.cli.labels import relabelled
from inference.cli.sizes import percent, size
from inference.contracts.bodies.fleet import DeviceBody
from inference.contracts.views.fleet import DeviceView, NodeView

app = group("Devices: GPUs, parts of GPUs, and CPU slots.")


@reads(app, "list", examples=["devices list", "devices list --node node-1", "devices list --free -q"])
def list_(
    cli: Cli,
    node: Annotated[str | None, typer.Option("--node", show_default=False, autocompletion=completion.nodes)] = None,
    free: Annotated[bool, typer.Option("--free", help="Those that a worker could get.")] = False,
) -> None:
    """Every device and who uses it. With --json: the nodes that they belong to."""
    found = cli.client.items("/nodes", NodeView, name=node)
    devices = [
        (each, device)
        for each in found.view
        for device in each.devices
        if not free or (device.worker_id is None and condition(device) == "ok")
    ]
    cli.out.rows(devices, found.raw, DEVICE_COLUMNS, device_name, "There are no such devices.")


@reads(app, "show", examples=["devices show node-1/gpu-0"])
def show(cli: Cli, name: arguments.Device) -> None:
    """One device and all that its node tells of it."""
    node, found = _look(cli, name)
    device = found.view
    pcie = None if device.pcie_gen is None else f"generation {device.pcie_gen}, {device.pcie_width} lanes"
    fields = [
        ("Device", f"{node.name}/{device.device_id}"),
        ("Name", device.name),
        ("Kind", device.kind),
        ("Index", device.index),
        ("Condition", condition(device)),
        ("Labels", device.labels),
        ("Worker", device.worker_id or "none"),
        ("Memory", f"{size(device.memory_used) or '?'} of {size(device.memory_total) or '?'}"),
        ("Busy", percent(device.utilization)),
        ("SM use", percent(device.sm_use)),
        ("Memory bandwidth", percent(device.memory_bandwidth_use)),
        ("Temperature", None if device.temperature_c is None else f"{device.temperature_c:.0f} C"),
        ("Power", None if device.power_w is None else f"{device.power_w:.0f} W"),
        ("Part of", device.parent or "none"),
        ("NVLink", device.nvlink_peers),
        ("PCIe", pcie),
        ("ECC errors", device.ecc_uncorrected),
        ("Last XID", device.xid),
        ("Cores", device.cores),
    ]
    cli.out.one(found.raw, fields, f"{node.name}/{device.device_id}")


@writes(app, "label", examples=["devices label node-1/gpu-0 h100 nvlink=a", "devices label node-1/gpu-0 h100-"])
def label(cli: Cli, name: arguments.Device, labels: arguments.Labels) -> None:
    """Add and remove labels, for placement."""
    node, found = _look(cli, name)
    body = DeviceBody(labels=relabelled(found.view.labels, labels))
    _change(cli, node, found, body, lambda device: ", ".join(device.labels) or "no labels")


@writes(app, "maintain", examples=["devices maintain node-1/gpu-0 --note 'fan'", "devices maintain node-1/gpu-0 --end"])
def maintain(
    cli: Cli,
    name: arguments.Device,
    note: Annotated[str, typer.Option("--note", help="Why.", show_default=False)] = "",
    end: Annotated[bool, typer.Option("--end", help="It may be used again.")] = False,
) -> None:
    """No worker is placed there; one that runs stays."""
    node, found = _look(cli, name)
    body = DeviceBody(maintenance=not end, maintenance_note="" if end else note)
    _change(cli, node, found, body, condition)


@writes(app, "reserve", examples=["devices reserve node-1/gpu-0 chat", "devices reserve node-1/gpu-0 --end"])
def reserve(
    cli: Cli,
    name: arguments.Device,
    deployment: Annotated[
        str,
        typer.Argument(
            help="The only one that may have it.", autocompletion=completion.deployments, show_default=False
        ),
    ] = "",
    end: Annotated[bool, typer.Option("--end", help="Any may have it again.")] = False,
) -> None:
    """Keep it for one deployment."""
    if bool(deployment) == end:
        raise typer.BadParameter("name the deployment, or say --end")
    node, found = _look(cli, name)
    _change(cli, node, found, DeviceBody(reserved_for=deployment), condition)


@writes(app, "forget", examples=["devices forget node-1/gpu-3"])
def forget(cli: Cli, name: arguments.Device) -> None:
    """Only one that its node does not report any more, and that no worker holds."""
    node, device = find.device(cli.client, name)
    cli.change("DELETE", f"/devices/{device.id}", None, type(None))
    cli.out.done(None, f"{node.name}/{device.device_id} is forgotten.", f"{node.name}/{device.device_id}")


def _look(cli: Cli, name: str) -> tuple[NodeView, Answer[DeviceView]]:
    """With its version."""
    node, device = find.device(cli.client, name)
    return node, cli.client.get(f"/devices/{device.id}", DeviceView)


def _change(
    cli: Cli, node: NodeView, found: Answer[DeviceView], body: DeviceBody, says: Callable[[DeviceView], str]
) -> None:
    answer = cli.change("PATCH", f"/devices/{found.view.id}", body, DeviceView, if_match=found.etag)
    name = f"{node.name}/{answer.view.device_id}"
    cli.out.done(answer.raw, f"{name}: {says(answer.view)}.", name)
