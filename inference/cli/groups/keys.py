"""`tandem keys`: who may call the serving API."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import UNSET

from inference.cli import arguments, completion, find
from inference.cli.command import Cli, reads, writes
from inference.cli.durations import moment, seconds
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.output import Column
from inference.contracts.bodies.access import KeyBody, KeyChangeBody, RotateBody
from inference.contracts.states import PriorityClass
from inference.contracts.views.access import IssuedKeyView, KeyView

app = group("Serving keys: who may call the serving API, for which models, how often, and who goes first.")

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="It may call this one; again for more.",
        show_default=False,
        autocompletion=completion.deployments,
    ),
]
Class = Annotated[
    PriorityClass | None,
    typer.Option("--class", help="Whose requests go first while there is not room for all.", show_default=False),
]
Rate = Annotated[int | None, typer.Option("--rpm", min=1, help="Requests a minute, per router.", show_default=False)]
Tokens = Annotated[
    int | None,
    typer.Option("--tpm", min=1, help="Tokens a minute, prompts and answers, per router.", show_default=False),
]
Concurrent = Annotated[int | None, typer.Option("--concurrent", min=1, help="At one time.", show_default=False)]
Expires = Annotated[int | None, typer.Option("--days", min=1, max=3650, help="Good for.", show_default=False)]
Grace = Annotated[
    float | None,
    typer.Option("--grace", parser=seconds, metavar="TIME", help="The old one stays good so long.", show_default=False),
]

COLUMNS = (
    Column("NAME", lambda key: key.name),
    Column("PREFIX", lambda key: key.prefix),
    Column("STATE", lambda key: "active" if key.revoked_at is None else f"revoked {moment(key.revoked_at)}"),
    Column("MODELS", lambda key: key.models or "all"),
    Column("CLASS", lambda key: key.priority_class),
    Column("RPM", lambda key: _limit(key.requests_per_minute), right=True),
    Column("TPM", lambda key: _limit(key.tokens_per_minute), right=True),
    Column("AT ONCE", lambda key: _limit(key.max_concurrent), right=True),
    Column("EXPIRES", lambda key: moment(key.expires_at)),
    Column("LAST USED", lambda key: moment(key.last_used_at)),
    Column("BY", lambda key: key.created_by),
)


@reads(app, "list", examples=["keys list", "keys list --all"])
def list_(cli: Cli, every: Annotated[bool, typer.Option("--all", help="Revoked ones, too.")] = False) -> None:
    """The newest first."""
    found = cli.client.items("/keys", KeyView, active=None if every else True)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda key: key.name, "There are no serving keys.")


@writes(app, "create", examples=["keys create ci --model chat --rpm 60 --tpm 20000 --days 30", "keys create ci -q"])
def create(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    models: Models = None,
    priority_class: Class = None,
    rpm: Rate = None,
    tpm: Tokens = None,
    concurrent: Concurrent = None,
    days: Expires = None,
) -> None:
    """It is shown this once."""
    body = KeyBody(
        name=name,
        models=models or [],
        priority_class=priority_class or PriorityClass.STANDARD,
        requests_per_minute=rpm,
        tokens_per_minute=tpm,
        max_concurrent=concurrent,
        expires_in_days=days,
    )
    answer = cli.change("POST", "/keys", body, IssuedKeyView)
    cli.out.secret(answer.raw, answer.view.key, f"Serving key {name}; it is shown this once:")


@writes(
    app, "change", examples=["keys change ci --rpm 120", "keys change ci --class high", "keys change ci --no-limits"]
)
def change(
    cli: Cli,
    name: arguments.Key,
    new_name: Annotated[str | None, typer.Option("--name", show_default=False)] = None,
    models: Models = None,
    all_models: Annotated[bool, typer.Option("--all-models", help="It may call all.")] = False,
    priority_class: Class = None,
    rpm: Rate = None,
    tpm: Tokens = None,
    concurrent: Concurrent = None,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="As often as it likes.")] = False,
) -> None:
    """Name, models, class and limits; routers go by them within a second."""
    nothing = None if no_limits else UNSET
    body = KeyChangeBody(
        name=UNSET if new_name is None else new_name,
        models=[] if all_models else models or UNSET,
        priority_class=priority_class or UNSET,
        requests_per_minute=nothing if rpm is None else rpm,
        tokens_per_minute=nothing if tpm is None else tpm,
        max_concurrent=nothing if concurrent is None else concurrent,
    )
    if body == KeyChangeBody():
        raise BadValue(
            "Say what is to change: --name, --model, --all-models, --class, --rpm, --tpm, --concurrent or --no-limits."
        )
    answer = cli.change("PATCH", f"/keys/{find.key(cli.client, name).id}", body, KeyView)
    key = answer.view
    rates = f"{_limit(key.requests_per_minute)} requests and {_limit(key.tokens_per_minute)} tokens a minute"
    limits = f"{rates}, {_limit(key.max_concurrent)} at one time"
    about = f"{', '.join(key.models) or 'all models'}; class {key.priority_class}; {limits}"
    cli.out.done(answer.raw, f"{key.name}: {about}.", key.name)


@writes(app, "rotate", examples=["keys rotate ci --grace 1h"])
def rotate(cli: Cli, name: arguments.Key, grace: Grace = None) -> None:
    """A new secret with the same rights and limits; the old one stays good for the grace."""
    key = find.key(cli.client, name)
    body = RotateBody(grace_s=grace)
    answer = cli.change("POST", f"/keys/{key.id}/rotate", body, IssuedKeyView)
    until = moment(answer.view.previous_until, missing="now")
    cli.out.secret(
        answer.raw, answer.view.key, f"Serving key {key.name}; the old one is good until {until}; shown this once:"
    )


@writes(app, "revoke", examples=["keys revoke ci"])
def revoke(cli: Cli, name: arguments.Key) -> None:
    """Routers refuse it within a second."""
    key = find.key(cli.client, name)
    cli.change("DELETE", f"/keys/{key.id}", None, type(None))
    cli.out.done(None, f"Serving key {key.name} is revoked.", key.name)


def _limit(limit: int | None) -> str:
    return "any" if limit is None else str(limit)
