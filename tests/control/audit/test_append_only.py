"""What is in the audit stays in the audit, as it was written: the database sees to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import DatabaseError, connection, transaction

from controlplane.audit.models import AuditEntry
from controlplane.audit.services import record

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]


@pytest.fixture
def entry() -> AuditEntry:
    return record(
        action="pool.resize", target_kind="pool", target_id="p1", target_name="m/decode", after={"replicas": 2}
    )


def _sql(statement: str) -> Callable[[AuditEntry], object]:
    return lambda entry: connection.cursor().execute(statement)


@pytest.mark.parametrize(
    "tamper",
    [
        pytest.param(lambda entry: entry.delete(), id="delete one"),
        pytest.param(lambda entry: AuditEntry.objects.all().delete(), id="delete all"),
        pytest.param(lambda entry: AuditEntry.objects.update(actor="nobody"), id="update all"),
        pytest.param(lambda entry: entry.save(), id="save again"),
        pytest.param(_sql("UPDATE audit_auditentry SET reason = 'x'"), id="UPDATE"),
        pytest.param(_sql("DELETE FROM audit_auditentry"), id="DELETE"),
    ],
)
def test_an_entry_is_neither_changed_nor_removed(entry: AuditEntry, tamper: Callable[[AuditEntry], object]) -> None:
    with pytest.raises(DatabaseError, match="never changed or removed"), transaction.atomic():
        tamper(entry)

    kept = AuditEntry.objects.get()
    assert (kept.actor, kept.reason, kept.after) == (entry.actor, "", {"replicas": 2})


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has no TRUNCATE")
def test_the_table_is_not_truncated(entry: AuditEntry) -> None:
    with pytest.raises(DatabaseError, match="never changed or removed"), transaction.atomic():
        connection.cursor().execute("TRUNCATE audit_auditentry")

    assert AuditEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_it_is_still_so_after_another_test_has_emptied_the_tables(entry_committed: AuditEntry) -> None:
    with pytest.raises(DatabaseError, match="never changed or removed"):
        entry_committed.delete()


@pytest.fixture
def entry_committed() -> AuditEntry:
    with transaction.atomic():
        return record(action="pool.resize", target_kind="pool", target_id="p1", target_name="m/decode")
