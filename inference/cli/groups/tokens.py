"""`tandem tokens`: programs that may use this API."""

from __future__ import annotations

from typing import Annotated

import typer

from inference.cli import arguments, completion, find
from inference.cli.command import Cli, reads, writes
from inference.cli.durations import moment
from inference.cli.group import group
from inference.cli.groups.keys import Expires, Grace
from inference.cli.output import Column
from inference.contracts.bodies.access import RotateBody, TokenBody
from inference.contracts.states import UserRole
from inference.contracts.views.access import IssuedTokenView, TokenView

app = group("Management tokens: programs that may use this API, this one included.")

COLUMNS = (
    Column("NAME", lambda token: token.name),
    Column("PREFIX", lambda token: token.prefix),
    Column("STATE", lambda token: "active" if token.revoked_at is None else f"revoked {moment(token.revoked_at)}"),
    Column("ROLE", lambda token: token.role),
    Column("ONLY", lambda token: "all" if token.only is None else token.only),
    Column("OWNER", lambda token: token.owner or "Tandem"),
    Column("EXPIRES", lambda token: moment(token.expires_at)),
    Column("LAST USED", lambda token: moment(token.last_used_at)),
)


@reads(app, "list", examples=["tokens list", "tokens list --all"])
def list_(cli: Cli, every: Annotated[bool, typer.Option("--all", help="Revoked ones, too.")] = False) -> None:
    """The newest first: one's own, or everybody's for admins."""
    found = cli.client.items("/tokens", TokenView, active=None if every else True)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda token: token.name, "There are no tokens.")


@writes(app, "create", examples=["tokens create ci --role operator --only chat --days 90"])
def create(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[UserRole, typer.Option("--role", help="At most one's own.")] = UserRole.VIEWER,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="It sees this deployment; again for more.",
            show_default=False,
            autocompletion=completion.deployments,
        ),
    ] = None,
    days: Expires = None,
) -> None:
    """It is shown this once."""
    body = TokenBody(name=name, role=role, only=only or None, expires_in_days=days)
    answer = cli.change("POST", "/tokens", body, IssuedTokenView)
    cli.out.secret(answer.raw, answer.view.token, f"Token {name}; it is shown this once:")


@writes(app, "rotate", examples=["tokens rotate ci --grace 1h"])
def rotate(cli: Cli, name: arguments.Token, grace: Grace = None) -> None:
    """A new secret with the same rights; the old one stays good for the grace."""
    token = find.token(cli.client, name)
    body = RotateBody(grace_s=grace)
    answer = cli.change("POST", f"/tokens/{token.id}/rotate", body, IssuedTokenView)
    until = moment(answer.view.previous_until, missing="now")
    cli.out.secret(
        answer.raw, answer.view.token, f"Token {token.name}; the old one is good until {until}; shown this once:"
    )


@writes(app, "revoke", examples=["tokens revoke ci"])
def revoke(cli: Cli, name: arguments.Token) -> None:
    """At once."""
    token = find.token(cli.client, name)
    cli.change("DELETE", f"/tokens/{token.id}", None, type(None))
    cli.out.done(None, f"Token {token.name} is revoked.", token.name)
