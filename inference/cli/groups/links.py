"""`tandem links`: the network between nodes."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from inference.cli import completion, find
from inference.cli.command import Cli, operates, reads
from inference.cli.durations import moment
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.output import Column
from inference.cli.sizes import size
from inference.contracts.answers import OperationAnswer
from inference.contracts.bodies.fleet import MeasureBody
from inference.contracts.states import NodeDesired, NodePhase
from inference.contracts.views.fleet import LinkView, NodeView

app = group("Links: the network between nodes, as the KV cache travels over it.")


def _speed(link: LinkView) -> str | None:
    return None if link.bytes_per_s is None else f"{size(link.bytes_per_s)}/s"


def _latency(link: LinkView) -> str | None:
    return None if link.latency_s is None else f"{link.latency_s * 1000:.2f} ms"


COLUMNS = (
    Column("FROM", lambda link: link.source),
    Column("TO", lambda link: link.target),
    Column("BANDWIDTH", _speed, right=True),
    Column("LATENCY", _latency, right=True),
    Column("MEASURED", lambda link: moment(link.measured_at)),
    Column("ERROR", lambda link: link.error),
)


@reads(app, "show", examples=["links show", "links show --from node-1"])
def show(
    cli: Cli,
    source: Annotated[str | None, typer.Option("--from", show_default=False, autocompletion=completion.nodes)] = None,
    target: Annotated[str | None, typer.Option("--to", show_default=False, autocompletion=completion.nodes)] = None,
) -> None:
    """Bandwidth and latency as last measured."""
    found = cli.client.items("/links", LinkView, source=source, target=target)
    cli.out.rows(
        found.view, found.raw, COLUMNS, lambda link: f"{link.source}/{link.target}", "Nothing was measured yet."
    )


@operates(app, "measure", examples=["links measure node-1 node-2 --wait", "links measure --all --wait"])
def measure(
    cli: Cli,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE...", help="Two or more.", autocompletion=completion.nodes, show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Between all nodes that report.")] = False,
) -> None:
    """With the real transfer code, both ways, a few pairs at a time."""
    if bool(nodes) == every:
        raise BadValue("Name the nodes, or say --all.")
    if every:
        found = cli.client.items("/nodes", NodeView, phase=NodePhase.READY).view
        ids = tuple(UUID(each.id) for each in found if each.desired != NodeDesired.RETIRED)
    else:
        ids = tuple(UUID(find.node(cli.client, name).id) for name in nodes or ())
    body = MeasureBody(nodes=ids, reason=cli.asked.reason)
    cli.operate("POST", "/links/measure", body, OperationAnswer, lambda answer: answer.operation)
