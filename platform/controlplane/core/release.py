"""Which release a database was filled by, as far as its migrations tell."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader


class NewerDatabase(Exception):
    """The database was filled by a release that this one does not know."""

    def __init__(self, unknown: list[str]) -> None:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        super().__init__(
            f"The database was filled by a newer release of Tandem: its migration {unknown[0]}{more} is not known "
            "here. Nothing was changed. Start that release, or restore a backup that this release made."
        )


def refuse_newer_database(connection: BaseDatabaseWrapper) -> None:
    """
    Raises:
        NewerDatabase: it has migrations that are not known here, so a start would misread its tables.
    """
    loader = MigrationLoader(connection)
    known = loader.disk_migrations or {}
    if unknown := sorted(f"{app}.{name}" for app, name in loader.applied_migrations if (app, name) not in known):
        raise NewerDatabase(unknown)


def applied_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    """Names such as "fleet.0001_initial", in order: two databases with equal lists have the same tables."""
    return sorted(f"{app}.{name}" for app, name in MigrationLoader(connection).applied_migrations)


def known_migrations(connection: BaseDatabaseWrapper) -> list[str]:
    """What `applied_migrations` is once `migrate` has run."""
    return sorted(f"{app}.{name}" for app, name in MigrationLoader(connection).disk_migrations or {})
