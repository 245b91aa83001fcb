"""The `tandem` command."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from inference.cli import errors
from inference.cli.group import group
from inference.cli.groups import (
    account,
    audit,
    deployments,
    devices,
    keys,
    links,
    models,
    nodes,
    operations,
    pools,
    rollouts,
    status,
    tokens,
    users,
    workers,
)

_EPILOG = f"""\b
Where and who: tandem login, or TANDEM_URL and TANDEM_TOKEN (TANDEM_CA_FILE for a private CA).
Completion:    tandem --install-completion

\b
Exit codes:
{chr(10).join(f"  {line}" for line in (errors.__doc__ or "").splitlines()[2:])}
"""

app = group("Operate Tandem: prefill and decode as one service.", epilog=_EPILOG)
account.register(app)
status.register(app)
deployments.app.add_typer(rollouts.app)
for _module, _name in (
    (deployments, "deployments"),
    (pools, "pools"),
    (workers, "workers"),
    (nodes, "nodes"),
    (devices, "devices"),
    (links, "links"),
    (models, "models"),
    (operations, "operations"),
    (keys, "keys"),
    (tokens, "tokens"),
    (users, "users"),
    (audit, "audit"),
):
    app.add_typer(_module.app, name=_name)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(version("tandem"))
        except PackageNotFoundError:  # a checkout that was not installed
            typer.echo("unknown")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
