"""`manage.py create_join_token`: a token for one node, printed alone so that scripts can use it."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.errors import ControlError
from controlplane.fleet.joining import join_token_create
from inference.contracts.bounds import JOIN_TOKEN_TTL_S


class Command(BaseCommand):
    help = "Print a join token for one node."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--note", default="", help="what it is for")
        parser.add_argument(
            "--ttl", type=int, default=JOIN_TOKEN_TTL_S, help="seconds until it expires (default one hour)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            issued = join_token_create(created_by="command line", note=options["note"], ttl_s=options["ttl"])
        except ControlError as error:
            raise CommandError(error.message) from error
        self.stdout.write(issued.raw)
