"""`tandem login`, `logout` and `whoami`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from inference.cli.client import Client
from inference.cli.command import Cli, fail, reads
from inference.cli.errors import CliError, NotLoggedIn
from inference.cli.login import Login, checked_url, login_forget, login_path, login_store
from inference.cli.prompts import secret_from
from inference.contracts.views.access import SessionUser, SessionView

DEFAULT_URL = "http://127.0.0.1:8000"


def register(app: typer.Typer) -> None:
    @app.command(
        "login",
        epilog="\b\nExamples:\n  tandem login --url https://tandem.example.org\n  tandem login < token-file",
    )
    def login(
        url: Annotated[str, typer.Option("--url", help="Of the control plane.")] = DEFAULT_URL,
        token: Annotated[
            str | None,
            typer.Option("--token", help="Better typed when asked, or piped: arguments can be seen by others."),
        ] = None,
        ca_file: Annotated[str, typer.Option("--ca-file", help="Certificates that vouch for it.")] = "",
    ) -> None:
        """Keep where the control plane is, and a management token for it, in a file of your own."""
        try:
            given = token or secret_from(sys.stdin, "Management token")
            wanted = Login(url=checked_url(url), token=given, ca_file=ca_file)
            user = _who(wanted)
            path = login_path()
            login_store(path, wanted)
        except CliError as error:
            fail(error)
            return
        if wanted.in_the_clear:
            typer.echo(f"Warning: the token travels unencrypted to {wanted.url}.", err=True)
        typer.echo(f"Logged in to {wanted.url} as {user.username} ({user.role}); kept in {path}.")

    @app.command("logout")
    def logout() -> None:
        """Forget the login. The token itself stays good: see tokens revoke."""
        typer.echo("Logged out." if login_forget(login_path()) else "There was no login.")

    @reads(app, "whoami", examples=["whoami"])
    def whoami(cli: Cli) -> None:
        """Who one is to the control plane, and what one may do."""
        found = cli.client.get("/session", SessionView)
        user = _known(found.view)
        fields = [
            ("Name", user.username),
            ("Kind", user.kind),
            ("Role", user.role),
            ("Grants", [f"{name}={role}" for name, role in sorted(user.grants.items())]),
            ("Sees", "everything" if user.only is None else user.only),
            ("Control plane", cli.client.login.url),
        ]
        raw = {key: value for key, value in found.raw.items() if key != "csrf"}
        cli.out.one(raw, fields, user.username)


def _who(login: Login) -> SessionUser:
    client = Client(login)
    try:
        return _known(client.get("/session", SessionView).view)
    finally:
        client.close()


def _known(session: SessionView) -> SessionUser:
    if session.user is None:
        raise NotLoggedIn(
            "The control plane does not know this token: it is no management token (they begin with tdm-)."
        )
    return session.user
