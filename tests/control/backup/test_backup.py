"""Claims about backup and restore, on the database the tests run on and between SQLite and it."""

from __future__ import annotations

import gzip
import shutil
import stat
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import DatabaseError
from pytest_django.fixtures import Settings

from controlplane.access.models import ServingKey
from controlplane.audit import append_only
from controlplane.audit.models import AuditEntry
from controlplane.backup import rows, services
from controlplane.core.data_lock import only_one
from controlplane.fleet.models import Node
from controlplane.pools.models import Worker
from tests.control.upgrade import database, release_0_1

Content = dict[str, list[bytes]]


@pytest.fixture(scope="module")
def sample(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup with rows of every kind."""
    file = tmp_path_factory.mktemp("sample") / "sample.tgz"
    with django_db_blocker.unblock():
        database.drop_tables()
        try:
            release_0_1.build()
            call_command("migrate", verbosity=0)
            AuditEntry.objects.create(
                at=release_0_1.NOON, actor="ada", actor_kind="user", action="pool.resize", target_kind="pool",
                target_id="1", target_name="chat/decode", before={"replicas": 1}, after={"text": "ünïcode \\ \n"},
            )  # fmt: skip
            return backup(file)
        finally:
            database.drop_tables()
            call_command("migrate", verbosity=0)


@pytest.fixture
def filled(sample: Path, transactional_db: None, tmp_path: Path, settings: Settings) -> Content:
    settings.DATA_DIR = tmp_path / "data"
    secrets = settings.DATA_DIR / "secrets"
    secrets.mkdir(parents=True)
    (secrets / "nodes").write_text("the secret of nodes\n")
    call_command("restore", str(sample))
    return without_restores(content())


def content() -> Content:
    return {model._meta.label: list(rows.dump(model)) for model in rows.tables()}


def without_restores(found: Content) -> Content:
    entries = [line for line in found["audit.AuditEntry"] if b"database.restore" not in line]
    return {**found, "audit.AuditEntry": entries}


def empty() -> None:
    with transaction.atomic():
        append_only.unprotect(connection)
        for model in rows.tables():
            rows.forget(connection, model)
        append_only.protect(connection)


def backup(path: Path, **options: object) -> Path:
    call_command("backup", str(path), verbosity=0, **options)
    return path


@pytest.mark.postgres
def test_what_is_restored_is_what_was_saved_to_the_microsecond(filled: Content, tmp_path: Path) -> None:
    Node.objects.update(last_report_at=release_0_1.NOON.replace(microsecond=123_457))
    before = without_restores(content())
    file = backup(tmp_path / "backup.tgz")
    empty()
    call_command("restore", str(file))

    assert without_restores(content()) == before
    assert AuditEntry.objects.filter(action="database.restore").latest("pk").target_name == "backup.tgz"
    for label in ("pools.Worker", "operations.OperationTarget", "auth.User", "telemetry.RollUp"):
        assert before[label]


@pytest.mark.postgres
def test_new_rows_get_new_numbers_after_a_restore(filled: Content, tmp_path: Path) -> None:
    file = backup(tmp_path / "backup.tgz")
    empty()
    call_command("restore", str(file))

    highest = max(AuditEntry.objects.values_list("pk", flat=True))
    entry = AuditEntry.objects.create(
        at=release_0_1.NOON, actor="a", actor_kind="user", action="x", target_kind="x", target_id="x", target_name="x"
    )
    assert entry.pk > highest


@pytest.mark.postgres
def test_audit_entries_are_as_safe_after_a_restore_as_before(filled: Content, tmp_path: Path) -> None:
    file = backup(tmp_path / "backup.tgz")
    empty()
    call_command("restore", str(file))

    with pytest.raises(DatabaseError, match="never changed or removed"):
        AuditEntry.objects.all().delete()


@pytest.mark.postgres
def test_a_backup_moves_to_a_sqlite_database_and_back(filled: Content, tmp_path: Path) -> None:
    there, again = tmp_path / "there.tgz", tmp_path / "back-again.tgz"
    other = f"sqlite:///{tmp_path}/other.sqlite3"
    backup(there)
    for command, file in (("restore", there), ("backup", again)):
        done = database.run("manage.py", command, str(file), data=tmp_path / "other", DATABASE_URL=other)
        assert done.returncode == 0, done.stderr
    empty()
    call_command("restore", str(again))

    assert without_restores(content()) == filled


def test_a_backup_is_for_its_owner_only_and_holds_secrets_only_when_asked(filled: Content, tmp_path: Path) -> None:
    plain = backup(tmp_path / "plain.tgz")
    full = backup(tmp_path / "full.tgz", with_secrets=True)

    assert stat.S_IMODE(plain.stat().st_mode) == stat.S_IMODE(full.stat().st_mode) == 0o600
    with tarfile.open(plain) as one, tarfile.open(full) as two:
        assert set(two.getnames()) - set(one.getnames()) == {"secrets/nodes"}
    assert b"the secret of nodes" not in gzip.decompress(plain.read_bytes())


def test_secrets_come_back_when_asked(filled: Content, tmp_path: Path, settings: Settings) -> None:
    file = backup(tmp_path / "full.tgz", with_secrets=True)
    shutil.rmtree(settings.DATA_DIR)
    empty()
    call_command("restore", str(file), with_secrets=True)

    secret = settings.DATA_DIR / "secrets" / "nodes"
    assert secret.read_text() == "the secret of nodes\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    with pytest.raises(CommandError, match=r"secret nodes is there already; --force"):
        call_command("restore", str(file), with_secrets=True)


def test_a_file_that_is_there_is_not_replaced(filled: Content, tmp_path: Path) -> None:
    (tmp_path / "backup.tgz").write_text("precious")

    with pytest.raises(CommandError, match="exists already"):
        backup(tmp_path / "backup.tgz")
    assert (tmp_path / "backup.tgz").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.postgres
def test_a_database_with_rows_is_replaced_only_by_force(filled: Content, tmp_path: Path) -> None:
    file = backup(tmp_path / "backup.tgz")
    ServingKey.objects.all().delete()
    now = content()

    with pytest.raises(CommandError, match="The database is not empty"):
        call_command("restore", str(file))
    assert content() == now
    call_command("restore", str(file), force=True)
    assert without_restores(content()) == filled


def test_nothing_is_restored_under_a_running_tandem(filled: Content, tmp_path: Path, settings: Settings) -> None:
    file = backup(tmp_path / "backup.tgz")

    with only_one(settings.DATA_DIR), pytest.raises(CommandError, match="running already"):
        call_command("restore", str(file), force=True)


@pytest.mark.parametrize("damage", ["cut off", "altered", "no archive", "another row", "no manifest"])
def test_a_damaged_file_changes_nothing(filled: Content, tmp_path: Path, damage: str) -> None:
    file = backup(tmp_path / "backup.tgz")
    whole = file.read_bytes()
    if damage == "cut off":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "altered":
        file.write_bytes(whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
    elif damage == "no archive":
        file.write_bytes(b"SQLite format 3\0" * 100)
    else:
        _repack(file, drop="manifest.json" if damage == "no manifest" else "", alter="tables/fleet.node")
    Worker.objects.all().delete()
    now = content()

    with pytest.raises(CommandError, match=r"no backup|damaged|cut off"):
        call_command("restore", str(file), force=True)
    assert content() == now


def test_a_backup_of_another_release_is_refused(
    filled: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = backup(tmp_path / "backup.tgz")
    known = services.known_migrations(connection)

    monkeypatch.setattr(services, "known_migrations", lambda connection: known[:-1])
    with pytest.raises(CommandError, match="made by a newer release"):
        call_command("restore", str(file), force=True)
    monkeypatch.setattr(services, "known_migrations", lambda connection: [*known, "pools.9999_later"])
    with pytest.raises(CommandError, match=r"earlier release of Tandem \(pools\.9999_later"):
        call_command("restore", str(file), force=True)


def test_tables_of_another_release_are_not_saved(filled: Content, tmp_path: Path) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("pools", "0005_requests_of_operations")
    try:
        with pytest.raises(CommandError, match=r"run `manage\.py migrate` first"):
            backup(tmp_path / "backup.tgz")
    finally:
        recorder.record_applied("pools", "0005_requests_of_operations")


def _repack(file: Path, *, drop: str, alter: str) -> None:
    parts = {}
    with tarfile.open(file) as tar:
        for entry in tar:
            part = tar.extractfile(entry)
            parts[entry.name] = part.read() if part else b""
    with tarfile.open(file, "w:gz") as tar:
        for name, data in parts.items():
            if name == drop:
                continue
            changed = data.replace(b"10.0.0.1", b"10.6.6.6") if name == alter else data
            entry = tarfile.TarInfo(name)
            entry.size = len(changed)
            tar.addfile(entry, BytesIO(changed))
