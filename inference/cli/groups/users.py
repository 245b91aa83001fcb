"""`tandem users`: people, their roles, and whose logins are refused."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from inference.cli import arguments
from inference.cli.client import segment
from inference.cli.command import Cli, reads, writes
from inference.cli.durations import moment
from inference.cli.errors import BadValue
from inference.cli.group import group
from inference.cli.output import Column
from inference.cli.prompts import secret_from
from inference.contracts.bodies.access import NewPasswordBody, UnlockBody, UserBody, UserChangeBody
from inference.contracts.states import Subject, UserRole
from inference.contracts.views.access import LockoutView, UnlockedView, UserView

app = group("Users: people and what they may do.")

Grants = Annotated[
    list[str] | None,
    typer.Option("--grant", metavar="DEPLOYMENT=ROLE", help="A higher role there; again for more.", show_default=False),
]

COLUMNS = (
    Column("NAME", lambda user: user.username),
    Column("ROLE", lambda user: user.role),
    Column("GRANTS", lambda user: [f"{name}={role}" for name, role in sorted(user.grants.items())]),
    Column("ACTIVE", lambda user: user.active),
    Column("LOGIN", lambda user: [way for way, has in (("password", user.local), ("provider", user.oidc)) if has]),
    Column("LAST LOGIN", lambda user: moment(user.last_login_at)),
    Column("CREATED", lambda user: moment(user.created_at)),
)


@reads(app, "list", examples=["users list", "users list --role admin"])
def list_(cli: Cli, role: Annotated[UserRole | None, typer.Option("--role", show_default=False)] = None) -> None:
    """By name."""
    found = cli.client.items("/users", UserView, role=role)
    cli.out.rows(found.view, found.raw, COLUMNS, lambda user: user.username, "There are no such users.")


@reads(app, "show", examples=["users show grace"])
def show(cli: Cli, name: arguments.User) -> None:
    """One person."""
    found = cli.client.get(f"/users/{segment(name)}", UserView)
    fields = [(column.title.capitalize(), column.cell(found.view)) for column in COLUMNS]
    cli.out.one(found.raw, fields, name)


@writes(app, "create", examples=["users create grace --role operator", "users create grace < password-file"])
def create(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    role: Annotated[UserRole, typer.Option("--role")] = UserRole.VIEWER,
    grant: Grants = None,
) -> None:
    """Asks for a first password, or reads it from standard input; its owner can change it."""
    password = secret_from(sys.stdin, "First password", confirm=True)
    body = UserBody(username=name, password=password, role=role, grants=_grants(grant or []))
    answer = cli.change("POST", "/users", body, UserView)
    cli.out.done(answer.raw, f"{name} is {answer.view.role}.", name)


@writes(app, "change", examples=["users change grace --role admin", "users change grace --inactive"])
def change(
    cli: Cli,
    name: arguments.User,
    role: Annotated[UserRole | None, typer.Option("--role", show_default=False)] = None,
    grant: Grants = None,
    no_grants: Annotated[bool, typer.Option("--no-grants", help="The same role everywhere.")] = False,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="May log in, or not.", show_default=False)
    ] = None,
) -> None:
    """Role, grants (--grant replaces all), and whether they may log in."""
    body = UserChangeBody(
        role=role,
        grants={} if no_grants else _grants(grant) if grant else None,
        active=active,
    )
    if body == UserChangeBody():
        raise BadValue("Say what is to change: --role, --grant, --no-grants, --active or --inactive.")
    answer = cli.change("PATCH", f"/users/{segment(name)}", body, UserView)
    state = "active" if answer.view.active else "inactive"
    cli.out.done(answer.raw, f"{name} is {answer.view.role} and {state}.", name)


@writes(app, "password", examples=["users password grace"])
def password(cli: Cli, name: arguments.User) -> None:
    """A new password; they are logged out everywhere."""
    body = NewPasswordBody(password=secret_from(sys.stdin, "New password", confirm=True))
    cli.change("PUT", f"/users/{segment(name)}/password", body, type(None))
    cli.out.done(None, f"{name} has a new password.", name)


@writes(app, "delete", final=True, examples=["users delete grace --yes"])
def delete(cli: Cli, name: arguments.User) -> None:
    """With their sessions and tokens. The audit keeps their name."""
    cli.confirm(f"Delete {name}?")
    cli.change("DELETE", f"/users/{segment(name)}", None, type(None))
    cli.out.done(None, f"{name} is deleted.", name)


@reads(app, "lockouts", examples=["users lockouts"])
def lockouts(cli: Cli) -> None:
    """Names and addresses whose logins are refused now."""
    found = cli.client.items("/lockouts", LockoutView)
    columns = (
        Column("WHAT", lambda each: each.subject),
        Column("VALUE", lambda each: each.value),
        Column("FAILURES", lambda each: each.failures, right=True),
        Column("UNTIL", lambda each: moment(each.until)),
    )
    cli.out.rows(found.view, found.raw, columns, lambda each: each.value, "No login is refused.")


@writes(app, "unlock", examples=["users unlock grace", "users unlock --address 192.0.2.7"])
def unlock(
    cli: Cli,
    name: Annotated[str | None, typer.Argument(metavar="USER", show_default=False)] = None,
    address: Annotated[str | None, typer.Option("--address", show_default=False)] = None,
) -> None:
    """Forget the failed logins of a name or an address."""
    if (name is None) == (address is None):
        raise BadValue("Name either a user or an --address.")
    value = name or address or ""
    body = UnlockBody(subject=Subject.NAME if address is None else Subject.ADDRESS, value=value)
    answer = cli.change("POST", "/lockouts/unlock", body, UnlockedView)
    cli.out.done(answer.raw, f"{answer.view.failures} failed logins of {value} are forgotten.", value)


def _grants(given: list[str]) -> dict[str, UserRole]:
    grants = {}
    for each in given:
        deployment, equals, role = each.rpartition("=")
        if not equals or role not in set(UserRole):
            raise BadValue(f"--grant takes DEPLOYMENT=ROLE with a role of {', '.join(UserRole)}, not {each!r}.")
        grants[deployment] = UserRole(role)
    return grants
