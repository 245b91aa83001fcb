"""The database itself refuses to change or remove audit entries, whoever asks: services, the admin, a shell.

A migration that alters the table has to end with `protect`: SQLite makes an altered table anew, without its triggers.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

_TABLE = "audit_auditentry"
_SENTENCE = "audit entries are never changed or removed"

_PROTECT = {
    "sqlite": [
        f"CREATE TRIGGER {_TABLE}_no_{verb} BEFORE {verb} ON {_TABLE} BEGIN SELECT RAISE(ABORT, '{_SENTENCE}'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        f"CREATE FUNCTION {_TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_SENTENCE}' USING ERRCODE = 'restrict_violation'; END $$",
        f"CREATE TRIGGER {_TABLE}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {_TABLE} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {_TABLE}_refuse()",
    ],
}
_UNPROTECT = {
    "sqlite": [f"DROP TRIGGER IF EXISTS {_TABLE}_no_{verb}" for verb in ("UPDATE", "DELETE")],
    "postgresql": [
        f"DROP TRIGGER IF EXISTS {_TABLE}_append_only ON {_TABLE}",
        f"DROP FUNCTION IF EXISTS {_TABLE}_refuse()",
    ],
}


def protect(connection: BaseDatabaseWrapper) -> None:
    """Have the database refuse every UPDATE, DELETE and TRUNCATE of the audit table. Doing it twice is harmless."""
    unprotect(connection)
    _run(connection, _PROTECT[connection.vendor])


def unprotect(connection: BaseDatabaseWrapper) -> None:
    """For undoing the migration, and for tests that empty their database."""
    _run(connection, _UNPROTECT[connection.vendor])


def _run(connection: BaseDatabaseWrapper, statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
