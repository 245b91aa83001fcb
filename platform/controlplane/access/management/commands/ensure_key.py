"""`manage.py ensure_key`: a working serving key in a file, made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.access.services import key_file_ensure
from controlplane.core.errors import ControlError


class Command(BaseCommand):
    help = "Create a serving key and write it to --out (mode 0600), unless that file holds a working key already."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", required=True, help="what the key is called in lists")
        parser.add_argument("--out", type=Path, required=True, help="file that holds the key")
        parser.add_argument("--internal", action="store_true", help="keep the key out of lists")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            created = key_file_ensure(name=options["name"], path=options["out"], internal=options["internal"])
        except (ControlError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{'Wrote a new key to' if created else 'There is a working key in'} {options['out']}.")
