"""`manage.py backup FILE`: everything the control plane keeps, in one file that only its owner may read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.backup.services import BackupRefused, backup_make


class Command(BaseCommand):
    help = "Write the database into FILE, while everything runs. It fits PostgreSQL and SQLite alike."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--with-secrets", action="store_true", help="the files of secrets/ too")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = backup_make(options["file"], with_secrets=options["with_secrets"])
        except (BackupRefused, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Wrote {count} rows to {options['file']}.")
