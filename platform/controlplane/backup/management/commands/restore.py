"""`manage.py restore FILE`: fill the database from a backup. Stop the control plane first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.backup.archive import DamagedBackup
from controlplane.backup.services import BackupRefused, backup_restore
from controlplane.core.data_lock import Running, only_one
from controlplane.core.release import NewerDatabase


class Command(BaseCommand):
    help = "Fill the database from FILE, all at once or not at all. Stop the control plane first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--force", action="store_true", help="replace what is in the database")
        parser.add_argument("--with-secrets", action="store_true", help="put the secrets of FILE into secrets/ too")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with only_one(settings.DATA_DIR):
                manifest = backup_restore(options["file"], force=options["force"], with_secrets=options["with_secrets"])
        except (BackupRefused, DamagedBackup, NewerDatabase, Running, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Restored the database as it was at {manifest.made_at}.")
