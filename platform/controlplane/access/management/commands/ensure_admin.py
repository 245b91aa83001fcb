"""`manage.py ensure_admin`: somebody who can log in, made once."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.access.users import admin_ensure
from controlplane.core import secret_file
from controlplane.core.errors import ControlError


class Command(BaseCommand):
    help = (
        "Create an administrator unless there is one of this name, who then keeps their password. The password is read "
        "from --password-file; where there is none, one is made and written there (mode 0600)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--username", default="admin")
        parser.add_argument("--password-file", type=Path, required=True)
        parser.add_argument("--show", action="store_true", help="also print the password of a new administrator")

    def handle(self, *args: Any, **options: Any) -> None:
        username, path = options["username"], options["password_file"]
        password = secret_file.read(path)
        if not password:
            password = secrets.token_urlsafe(12)
            secret_file.write(path, password)
        try:
            created = admin_ensure(username=username, password=password)
        except ControlError as error:
            raise CommandError(error.message) from error
        if not created:
            self.stdout.write(f"{username} is there already and keeps their password.")
            return
        self.stdout.write(f"Created {username}; the password is in {path}.")
        if options["show"]:
            self.stdout.write(password)
