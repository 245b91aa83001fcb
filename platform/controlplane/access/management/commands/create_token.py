"""`manage.py create_token`: a management token for a script, made by whoever has the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from controlplane.access.tokens import token_create
from controlplane.core import secret_file
from controlplane.core.errors import ControlError
from controlplane.core.principal import SYSTEM
from inference.contracts.states import UserRole


class Command(BaseCommand):
    help = "Create a management token and print it, or write it to --out (mode 0600). It can't be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what the token is called in lists and in the audit")
        parser.add_argument("--role", choices=[str(role) for role in UserRole], default=str(UserRole.OPERATOR))
        parser.add_argument("--only", nargs="+", metavar="DEPLOYMENT", help="deployments that it may see and change")
        parser.add_argument("--days", type=int, help="how long it lives; left out, until it is revoked")
        parser.add_argument("--out", type=Path, help="file to write it to, instead of printing it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                issued = token_create(
                    by=SYSTEM,
                    owner=None,
                    name=options["name"],
                    role=UserRole(options["role"]),
                    only=options["only"],
                    expires_in_days=options["days"],
                )
                if options["out"] is not None:
                    secret_file.write(options["out"], issued.raw)
        except ControlError as error:
            raise CommandError(error.message) from error
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(issued.raw if options["out"] is None else f"Wrote the token to {options['out']}.")
