"""Asking for secrets: never as an argument, where every process of the machine can read it."""

from __future__ import annotations

from typing import TextIO

import typer

from inference.cli.errors import BadValue


def secret_from(stdin: TextIO, what: str, *, confirm: bool = False) -> str:
    """Asked without echo on a terminal, else the first line of `stdin`.

    Raises:
        BadValue: there is none.
    """
    if stdin.isatty():
        return str(typer.prompt(what, hide_input=True, confirmation_prompt=confirm, err=True))
    line = stdin.readline().strip()
    if not line:
        raise BadValue(f"{what}: nothing came on standard input.")
    return line
