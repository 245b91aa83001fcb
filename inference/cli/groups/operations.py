"""`tandem operations`: what was asked for, and how it goes."""

from __future__ import annotations

from typing import Annotated

import typer

from inference.cli import arguments, completion, find
from inference.cli.command import Cli, operates, reads, waits, writes
from inference.cli.durations import moment
from inference.cli.group import group
from inference.cli.output import Column
from inference.cli.preview import show_preview
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.states import OperationKind, OperationState
from inference.contracts.views.operations import OperationView

app = group("Operations: everything that operators asked for, step by step.")

COLUMNS = (
    Column("ID", lambda each: each.id),
    Column("KIND", lambda each: each.kind),
    Column("STATE", lambda each: each.state),
    Column("PROGRESS", lambda each: f"{each.progress:.0%}", right=True),
    Column("WHAT", lambda each: each.title),
    Column("BY", lambda each: each.requested_by),
    Column("ASKED", lambda each: moment(each.requested_at)),
    Column("OUTCOME", lambda each: each.outcome),
)


@reads(
    app, "list", examples=["operations list", "operations list --state running", "operations list --deployment chat"]
)
def list_(
    cli: Cli,
    state: Annotated[OperationState | None, typer.Option("--state", show_default=False)] = None,
    kind: Annotated[OperationKind | None, typer.Option("--kind", show_default=False)] = None,
    deployment: Annotated[
        str | None, typer.Option("--deployment", show_default=False, autocompletion=completion.deployments)
    ] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who asked.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option("--text", help="In what it says.", show_default=False)] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 30,
) -> None:
    """The newest first."""
    found = cli.client.items(
        "/operations",
        OperationView,
        at_most=limit,
        state=state,
        kind=kind,
        deployment=deployment,
        requested_by=by,
        text=text,
    )
    cli.out.rows(found.view, found.raw, COLUMNS, lambda each: each.id, "There are no such operations.")


@reads(app, "show", examples=["operations show latest", "operations show 3f2a"])
def show(cli: Cli, operation: arguments.Operation) -> None:
    """One operation with its steps and what it was expected to do."""
    found = find.operation(cli.client, operation)
    view = found.view
    can = [name for name, able in (("cancelled", view.cancellable), ("retried", view.retryable)) if able]
    fields = [
        ("Operation", view.id),
        ("What", view.title),
        ("State", f"{view.state}, {view.progress:.0%}"),
        ("Outcome", view.outcome),
        ("Change", f"{view.before or '-'} -> {view.after or '-'}"),
        ("On", [f"{target.kind} {target.name}" for target in view.targets]),
        ("Asked", f"{moment(view.requested_at)} by {view.requested_by}"),
        ("Reason", view.reason),
        ("Started", moment(view.started_at, missing="not yet" if view.finished_at is None else "never")),
        ("Ended", moment(view.finished_at, missing="not yet")),
        ("Queued behind", view.queued_behind),
        ("Again of", view.retry_of or "-"),
        ("Can be", can),
    ]
    cli.out.one(found.raw, fields, view.id)
    if cli.out.for_people:
        if view.steps:
            cli.out.heading("Steps")
            cli.out.table(view.steps, _STEPS)
        if view.preview is not None:
            cli.out.heading("As it was expected")
            show_preview(cli.out, view)


@waits(app, "watch", examples=["operations watch latest --timeout 1h"])
def watch(cli: Cli, operation: arguments.Operation) -> None:
    """Follow it to its end; exit 1 unless it succeeds."""
    cli.follow(find.operation(cli.client, operation).view)


@writes(app, "cancel", reason=True, examples=["operations cancel latest --reason 'wrong pool'"])
def cancel(cli: Cli, operation: arguments.Operation) -> None:
    """What was wanted before is wanted again."""
    found = find.operation(cli.client, operation).view
    answer = cli.change("POST", f"/operations/{found.id}/cancel", ReasonBody(reason=cli.asked.reason), OperationView)
    view = answer.view
    cli.out.done(answer.raw, f"{view.title}: {view.state}. {view.outcome}".rstrip(), view.id)


@operates(app, "retry", examples=["operations retry 3f2a --wait"])
def retry(cli: Cli, operation: arguments.Operation) -> None:
    """Ask for the same again, where it failed or was cancelled."""
    found = find.operation(cli.client, operation).view
    body = ReasonBody(reason=cli.asked.reason)
    cli.operate("POST", f"/operations/{found.id}/retry", body, OperationView, lambda view: view)


_STEPS = (
    Column("AT", lambda each: moment(each.at)),
    Column("STATE", lambda each: each.state),
    Column("WHAT", lambda each: each.text),
    Column("CAUSE", lambda each: each.cause),
    Column("ENDED", lambda each: moment(each.finished_at, missing="-")),
)
