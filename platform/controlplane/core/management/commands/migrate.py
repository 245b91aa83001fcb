"""`manage.py migrate`: Django's own, made all or nothing.

Django commits each migration by itself, and notes it after that commit: a process that is killed in between leaves a
database that neither release can use. Both of our databases change tables inside a transaction, so an upgrade is one
transaction: until its end the previous release's tables are untouched, and whoever else migrates waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as DjangoCommand
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from controlplane.core.release import NewerDatabase, refuse_newer_database

#: Names the lock under which PostgreSQL lets one migration run at a time; the number means nothing.
_LOCK = 7_263_001


class Command(DjangoCommand):
    help = "Bring the database's tables to this release, all at once or not at all."

    def handle(self, *args: Any, **options: Any) -> None:
        self._connection = connections[options["database"]]
        try:
            with _one_transaction(self._connection):
                refuse_newer_database(self._connection)
                super().handle(*args, **options)
        except NewerDatabase as error:
            raise CommandError(str(error)) from error

    def migration_progress_callback(self, action: str, *args: Any, **kwargs: Any) -> None:
        super().migration_progress_callback(action, *args, **kwargs)
        if action in ("apply_success", "unapply_success"):
            # Rows that a migration wrote are checked now: PostgreSQL alters no table whose checks are outstanding.
            self._connection.check_constraints()


@contextmanager
def _one_transaction(connection: BaseDatabaseWrapper) -> Iterator[None]:
    # SQLite rebuilds tables to alter them, which it can't do while it follows foreign keys, and the switch for that
    # has no effect inside a transaction. Each migration checks them at its end.
    unchecked = connection.vendor == "sqlite" and connection.disable_constraint_checking()
    try:
        with transaction.atomic(using=connection.alias):
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            yield
    finally:
        if unchecked:
            connection.enable_constraint_checking()
