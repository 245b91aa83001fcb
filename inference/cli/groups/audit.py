"""`tandem audit`: who did what."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from inference.cli.command import Cli, reads
from inference.cli.durations import moment
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.output import Column
from inference.contracts import codec
from inference.contracts.views.audit import AuditEntryView

app = group("Audit: every write that went through; for admins.")

Actor = Annotated[str | None, typer.Option("--actor", help="Who did it.", show_default=False)]
Action = Annotated[str | None, typer.Option("--action", help='"pool.resize", or "pool."', show_default=False)]
TargetKind = Annotated[str | None, typer.Option("--kind", help="Of what was changed.", show_default=False)]
Target = Annotated[str | None, typer.Option("--target", help="Its id or name.", show_default=False)]
Text = Annotated[str | None, typer.Option("--text", help="Anywhere in it.", show_default=False)]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="2026-03-01T12:00Z", show_default=False)]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this.", show_default=False)]


class Format(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


COLUMNS = (
    Column("AT", lambda each: moment(each.at)),
    Column("WHO", lambda each: f"{each.actor} ({each.actor_kind})"),
    Column("FROM", lambda each: each.address),
    Column("ACTION", lambda each: each.action),
    Column("ON", lambda each: f"{each.target_kind} {each.target_name or each.target_id}"),
    Column("BEFORE", lambda each: _value(each.before)),
    Column("AFTER", lambda each: _value(each.after)),
    Column("REASON", lambda each: each.reason),
)


@reads(app, "search", examples=["audit search --action pool. --since 2026-03-01T00:00Z", "audit search --target chat"])
def search(
    cli: Cli,
    actor: Actor = None,
    action: Action = None,
    kind: TargetKind = None,
    target: Target = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
) -> None:
    """The newest first."""
    query = _query(actor, action, kind, target, text, since, until)
    found = cli.client.items("/audit", AuditEntryView, at_most=limit, **query)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda each: str(each.id), "Nothing like that was done.")


@reads(
    app, "export", examples=["audit export --out audit.csv", "audit export --format jsonl --since 2026-03-01T00:00Z"]
)
def export(
    cli: Cli,
    format: Annotated[Format, typer.Option("--format")] = Format.CSV,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", dir_okay=False, help="A new file; else standard output.")
    ] = None,
    actor: Actor = None,
    action: Action = None,
    kind: TargetKind = None,
    target: Target = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """The oldest first, written as it comes."""
    query = _query(actor, action, kind, target, text, since, until)
    with cli.client.stream("/audit/export", format=format, **query) as pieces:
        if out is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            return
        try:
            with out.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
        except FileExistsError as error:
            raise BadValue(f"{out} is there already; name a new file.") from error
        except OSError as error:
            raise BadValue(f"{out} can't be written: {error.strerror}.") from error
    cli.out.note(f"Written to {out}.")


def _query(
    actor: str | None,
    action: str | None,
    kind: str | None,
    target: str | None,
    text: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, str | None]:
    """As the API names them."""
    return {
        "actor": actor,
        "action": action,
        "target_kind": kind,
        "target": target,
        "text": text,
        "since": since,
        "until": until,
    }


def _value(value: Any) -> str:
    return "" if value is None else codec.encode_text(value)
