"""`manage.py unlock_login`: for an admin who is locked out."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.access.lockout import unlock
from inference.contracts.states import Subject


class Command(BaseCommand):
    help = "Forget the failed logins of a user name or an address, so that the next try is looked at."

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--name", help="user name, as typed at the login")
        which.add_argument("--address", help="address that the logins came from")

    def handle(self, *args: Any, **options: Any) -> None:
        subject = Subject.NAME if options["name"] is not None else Subject.ADDRESS
        value = options[subject]
        self.stdout.write(f"Forgot {unlock(subject=subject, value=value)} failed logins of {value}.")
