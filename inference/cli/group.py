"""How every group of commands is made: plain help texts, and help where no command is given."""

from __future__ import annotations

import typer


def group(help: str, *, epilog: str | None = None) -> typer.Typer:
    return typer.Typer(
        help=help,
        epilog=epilog,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,  # they show values of variables
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
