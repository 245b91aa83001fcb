"""Arguments that several commands take, each with what the shell completes."""

from __future__ import annotations

from typing import Annotated

import typer

from inference.cli import completion

Deployment = Annotated[
    str, typer.Argument(help="Its name.", metavar="DEPLOYMENT", autocompletion=completion.deployments)
]
Pool = Annotated[str, typer.Argument(help='"chat/decode".', metavar="POOL", autocompletion=completion.pools)]
Worker = Annotated[
    str,
    typer.Argument(help='"chat/decode-1", or an id.', metavar="WORKER", autocompletion=completion.workers),
]
Node = Annotated[str, typer.Argument(help="Name or id.", metavar="NODE", autocompletion=completion.nodes)]
Device = Annotated[str, typer.Argument(help='"node-1/gpu-0".', metavar="DEVICE", autocompletion=completion.devices)]
Model = Annotated[str, typer.Argument(help="Its name.", metavar="MODEL", autocompletion=completion.models)]
Operation = Annotated[
    str,
    typer.Argument(
        help='Its id, the beginning of it, or "latest".', metavar="OPERATION", autocompletion=completion.operations
    ),
]
Key = Annotated[str, typer.Argument(help="Name or id.", metavar="KEY", autocompletion=completion.keys)]
Token = Annotated[str, typer.Argument(help="Name or id.", metavar="TOKEN", autocompletion=completion.tokens)]
User = Annotated[str, typer.Argument(help="Their name.", metavar="USER", autocompletion=completion.users)]

Labels = Annotated[
    list[str], typer.Argument(help='"fast" or "rack=r7" adds, "fast-" or "rack-" removes.', metavar="LABEL...")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many.", show_default=False)]
