"""`tandem nodes`: machines, and how they come and go."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from inference.cli import arguments, find
from inference.cli.command import Cli, operates, reads, writes
from inference.cli.durations import moment, seconds
from inference.cli.group import group
from inference.cli.groups.device_table import DEVICE_COLUMNS
from inference.cli.labels import relabelled
from inference.cli.output import Column
from inference.cli.sizes import size
from inference.contracts.answers import NodeOperationAnswer
from inference.contracts.bodies.fleet import JoinTokenBody, NodeBody
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.bounds import JOIN_TOKEN_TTL_S
from inference.contracts.states import NodeDesired, NodePhase
from inference.contracts.views.fleet import JoinTokenOpenView, JoinTokenView, NodeView

app = group("Nodes: machines with devices, each with its agent.")


def _devices(node: NodeView) -> str:
    counts = Counter(device.name or str(device.kind) for device in node.devices)
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _used(node: NodeView) -> str:
    return f"{sum(device.worker_id is not None for device in node.devices)}/{len(node.devices)}"


COLUMNS = (
    Column("NODE", lambda node: node.name),
    Column("PHASE", lambda node: node.phase),
    Column("WANTED", lambda node: node.desired),
    Column("DEVICES", _devices),
    Column("IN USE", _used, right=True),
    Column("WORKERS", lambda node: node.workers, right=True),
    Column("LABELS", lambda node: node.labels),
    Column("LAST REPORT", lambda node: moment(node.last_report_at)),
    Column("WARNINGS", lambda node: len(node.warnings) or "", right=True),
)


@reads(app, "list", examples=["nodes list", "nodes list --phase lost", "nodes list --label rack=r7 -q"])
def list_(
    cli: Cli,
    phase: Annotated[NodePhase | None, typer.Option("--phase", show_default=False)] = None,
    desired: Annotated[NodeDesired | None, typer.Option("--wanted", show_default=False)] = None,
    label: Annotated[str | None, typer.Option("--label", help="Exactly this one.", show_default=False)] = None,
    limit: arguments.Limit = None,
) -> None:
    """Every node; retired ones stay, for the record."""
    found = cli.client.items("/nodes", NodeView, at_most=limit, phase=phase, desired=desired, label=label)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda node: node.name, "There are no such nodes.")


@reads(app, "show", examples=["nodes show node-1"])
def show(cli: Cli, name: arguments.Node) -> None:
    """One node with its devices and what an operator should see to."""
    found = cli.client.get(f"/nodes/{find.node(cli.client, name).id}", NodeView)
    node = found.view
    offset = None if node.clock_offset_s is None else f"{node.clock_offset_s:+.1f} s against the control plane"
    fields = [
        ("Node", node.name),
        ("Id", node.id),
        ("Host", f"{node.hostname}, {node.address}"),
        ("Phase", node.phase),
        ("Wanted", f"{node.desired}{f': {node.cordon_reason}' if node.cordon_reason else ''}"),
        ("Labels", node.labels),
        ("Agent", node.agent_version),
        ("Driver", node.driver),
        ("Engines", [f"{engine} {version}" for engine, version in sorted(node.engines.items())]),
        ("Interfaces", node.interfaces),
        ("Cores", node.cpu_cores),
        ("Memory", f"{size(node.memory_used) or '?'} of {size(node.memory_total) or '?'}"),
        ("Disk free", f"{size(node.disk_free) or '?'} of {size(node.disk_total) or '?'}"),
        ("Clock", offset),
        ("Spec", f"generation {node.observed_generation} of {node.generation}"),
        ("Joined", moment(node.joined_at)),
        ("Last report", moment(node.last_report_at)),
    ]
    cli.out.one(found.raw, fields, node.name)
    if cli.out.for_people:
        if node.devices:
            cli.out.heading("Devices")
            cli.out.table([(node, device) for device in node.devices], DEVICE_COLUMNS)
        for warning in node.warnings:
            cli.out.text(f"! {warning}")


@operates(app, "cordon", examples=["nodes cordon node-1 --reason 'new driver'"])
def cordon(cli: Cli, name: arguments.Node) -> None:
    """It is given nothing new; what it runs stays."""
    _operate(cli, name, "cordon")


@operates(app, "uncordon", examples=["nodes uncordon node-1"])
def uncordon(cli: Cli, name: arguments.Node) -> None:
    """It may be given workers again."""
    _operate(cli, name, "uncordon")


@operates(app, "drain", examples=["nodes drain node-1 --dry-run", "nodes drain node-1 --wait --timeout 1h"])
def drain(cli: Cli, name: arguments.Node) -> None:
    """Its workers move elsewhere, where there is room, or finish what they have."""
    _operate(cli, name, "drain")


@operates(app, "retire", final=True, examples=["nodes retire node-1 --reason 'sold' --yes"])
def retire(cli: Cli, name: arguments.Node) -> None:
    """Final: its credentials are void at once, and what it runs counts as gone."""
    cli.confirm(f"Retire {name} for good?")
    _operate(cli, name, "retire")


@writes(app, "label", examples=["nodes label node-1 rack=r7 fast", "nodes label node-1 fast-"])
def label(cli: Cli, name: arguments.Node, labels: arguments.Labels) -> None:
    """Add and remove labels, for placement. Workers that run stay where they are."""
    found = cli.client.get(f"/nodes/{find.node(cli.client, name).id}", NodeView)
    body = NodeBody(labels=relabelled(found.view.labels, labels))
    answer = cli.change("PATCH", f"/nodes/{found.view.id}", body, NodeView, if_match=found.etag)
    cli.out.done(answer.raw, f"{answer.view.name}: {', '.join(answer.view.labels) or 'no labels'}.", answer.view.name)


@writes(app, "join-command", examples=["nodes join-command --note 'rack 7' --ttl 1h", "nodes join-command -q"])
def join_command(
    cli: Cli,
    note: Annotated[str, typer.Option("--note", help="What it is for.", show_default=False)] = "",
    ttl: Annotated[
        float | None, typer.Option("--ttl", parser=seconds, metavar="TIME", help="Good for.", show_default=False)
    ] = None,
) -> None:
    """The one line to run on a new machine; it lets one machine join, once."""
    body = JoinTokenBody(note=note, ttl_s=JOIN_TOKEN_TTL_S if ttl is None else int(ttl))
    answer = cli.change("POST", "/join-tokens", body, JoinTokenView)
    cli.out.secret(
        answer.raw,
        answer.view.command,
        f"Run this on the new machine before {moment(answer.view.expires_at)}; it is shown this once:",
    )


@reads(app, "join-tokens", examples=["nodes join-tokens"])
def join_tokens(cli: Cli) -> None:
    """Join commands that can still be used, without their tokens."""
    found = cli.client.items("/join-tokens", JoinTokenOpenView)
    columns = (
        Column("ID", lambda each: each.id, right=True),
        Column("NOTE", lambda each: each.note),
        Column("BY", lambda each: each.created_by),
        Column("CREATED", lambda each: moment(each.created_at)),
        Column("EXPIRES", lambda each: moment(each.expires_at)),
    )
    cli.out.rows(found.view, found.raw, columns, lambda each: str(each.id), "There are no open join tokens.")


@writes(app, "revoke-join", examples=["nodes revoke-join 7"])
def revoke_join(
    cli: Cli, token_id: Annotated[int, typer.Argument(min=1, metavar="ID", help="Of join-tokens.")]
) -> None:
    """A join command is good for nothing any more."""
    cli.change("DELETE", f"/join-tokens/{token_id}", None, type(None))
    cli.out.done(None, f"Join token {token_id} is revoked.", str(token_id))


def _operate(cli: Cli, name: str, verb: str) -> None:
    node = find.node(cli.client, name)
    body = ReasonBody(reason=cli.asked.reason)
    cli.operate("POST", f"/nodes/{node.id}/{verb}", body, NodeOperationAnswer, lambda answer: answer.operation)
