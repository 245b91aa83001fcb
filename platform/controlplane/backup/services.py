"""Backup and restore of everything the control plane keeps, between any two of its databases.

What nodes keep (weights, logs, running workers) and what Redis carries is not part of it: nodes report again, and the
tables that routers hold are built anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction

from controlplane.audit import append_only
from controlplane.audit.models import AuditEntry
from controlplane.audit.services import record
from controlplane.backup import rows
from controlplane.backup.archive import FORMAT, Archive, Manifest, new_archive, open_archive
from controlplane.core import clock, secret_file
from controlplane.core.release import applied_migrations, known_migrations, refuse_newer_database

_TABLES, _SECRETS = "tables/", "secrets/"


class BackupRefused(Exception):
    """What was asked for would lose something or could not work; the text says what to do."""


def backup_make(path: Path, *, with_secrets: bool) -> int:
    """Write everything, as it is at one moment, into a new file that only its owner may read. Returns the rows.

    with_secrets: the files in `secrets/` too, among them what every node's key is derived from.

    Raises:
        BackupRefused: the tables are not those of this release.
        OSError: the file can't be written, or is there already.
    """
    if applied_migrations(connection) != known_migrations(connection):
        raise BackupRefused("The tables are not those of this release: run `manage.py migrate` first.")
    count = 0
    with new_archive(path) as archive, _one_moment():
        for model in rows.tables():
            count += archive.add_lines(_TABLES + model._meta.label_lower, rows.dump(model))
        for secret in _secret_files() if with_secrets else []:
            archive.add_bytes(_SECRETS + secret.name, secret.read_bytes())
        archive.close(
            Manifest(
                format=FORMAT,
                made_at=clock.now().isoformat(),
                database=connection.vendor,
                migrations=applied_migrations(connection),
                parts=archive.parts,
            )
        )
    return count


def backup_restore(path: Path, *, force: bool, with_secrets: bool) -> Manifest:
    """Fill the database from the file, all at once or not at all. The control plane must not run meanwhile.

    force: replace what is there, secrets included. with_secrets: put the secrets of the file into `secrets/`.

    Raises:
        DamagedBackup: see there; nothing was changed.
        BackupRefused: the file is of another release, or there is something that `force` would replace.
        NewerDatabase: see there.
        OSError: the file can't be read, or a secret not be written.
    """
    refuse_newer_database(connection)
    with open_archive(path) as archive:
        _refuse_other_release(path, archive.manifest)
        secrets = _secrets_of(archive) if with_secrets else {}
        taken = sorted(name for name in secrets if _secret_path(name).exists())
        if taken and not force:
            raise BackupRefused(f"The secret {taken[0]} is there already; --force replaces it.")
        call_command("migrate", verbosity=0, interactive=False)
        _fill(path, archive, force=force)
        for name, secret in secrets.items():
            secret_file.write(_secret_path(name), secret)
        return archive.manifest


@transaction.atomic
def _fill(path: Path, archive: Archive, *, force: bool) -> None:
    models = rows.tables()
    if not force and (filled := [model for model in models if model._base_manager.exists()]):
        raise BackupRefused(
            f"The database is not empty: there are {filled[0]._meta.verbose_name_plural}. --force replaces everything."
        )
    append_only.unprotect(connection)
    for model in models:
        rows.forget(connection, model)
    for model in models:
        rows.load(model, archive.lines(_TABLES + model._meta.label_lower))
    rows.number_on(connection)
    # PostgreSQL alters no table whose checks are outstanding; and what refers to nothing is better found here.
    connection.check_constraints()
    append_only.protect(connection)
    record(
        action="database.restore",
        target_kind="database",
        target_id=path.name,
        target_name=path.name,
        after={"made_at": archive.manifest.made_at, "entries_before": AuditEntry.objects.count()},
    )


def _refuse_other_release(path: Path, manifest: Manifest) -> None:
    known = set(known_migrations(connection))
    if unknown := sorted(set(manifest.migrations) - known):
        raise BackupRefused(f"{path} was made by a newer release of Tandem ({unknown[0]} is not known here).")
    if lacking := sorted(known - set(manifest.migrations)):
        raise BackupRefused(
            f"{path} was made by an earlier release of Tandem ({lacking[0]} was not there yet). Restore it with that "
            "release, then upgrade."
        )


@contextmanager
def _one_moment() -> Iterator[None]:
    """Everything that is read within comes from the same moment, and nobody who writes is kept waiting."""
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if connection.vendor == "postgresql" else "BEGIN DEFERRED"
    with connection.cursor() as cursor:
        cursor.execute(begin)
        try:
            yield
        finally:
            cursor.execute("ROLLBACK")


def _secret_path(name: str) -> Path:
    return settings.DATA_DIR / "secrets" / name


def _secret_files() -> list[Path]:
    return sorted(path for path in _secret_path("").glob("[!.]*") if path.is_file())


def _secrets_of(archive: Archive) -> dict[str, str]:
    """By file name: a name with a path in it is not one that a backup has."""
    names = [name.removeprefix(_SECRETS) for name in archive.manifest.parts if name.startswith(_SECRETS)]
    return {name: archive.content(_SECRETS + name).decode().strip() for name in names if name == Path(name).name}
