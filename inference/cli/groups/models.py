"""`tandem models`: the catalogue."""

from __future__ import annotations

from typing import Annotated

import typer

from inference.cli.command import Cli, reads, writes
from inference.cli.durations import moment
from inference.cli.group import group
from inference.cli.output import Column
from inference.cli.wire import ModelBody
from inference.contracts.console import ModelView

app = group("Models: what can be served.")

COLUMNS = (
    Column("NAME", lambda model: model.name),
    Column("PATH", lambda model: model.path),
    Column("DESCRIPTION", lambda model: model.description),
    Column("ADDED", lambda model: moment(model.created_at)),
)


@reads(app, "list", examples=["models list"])
def list_(cli: Cli) -> None:
    """By name."""
    found = cli.client.items("/models", ModelView)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda model: model.name, "The catalogue is empty.")


@writes(app, "add", examples=["models add smollm2-135m --path HuggingFaceTB/SmolLM2-135M-Instruct"])
def add(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    path: Annotated[str, typer.Option("--path", help="A hub id, or a directory as the nodes see it.")],
    description: Annotated[str, typer.Option("--description", show_default=False)] = "",
) -> None:
    """Name something that can be served."""
    answer = cli.change("POST", "/models", ModelBody(name=name, path=path, description=description), ModelView)
    cli.out.done(answer.raw, f"{name} is in the catalogue.", name)
