"""Saving many rows that exist, by one plain statement that is executed for each of them.

Django's `bulk_update` builds one statement with a CASE for each column of each row, and `bulk_create` one that names
all columns of all rows: for hundreds of rows, building them costs far more than all else that is done with the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Model

R = TypeVar("R", bound=Model)


def rows_write(rows: Sequence[R], columns: Sequence[str]) -> None:
    """Save these fields of `rows`, which are all of one model and are in the database already."""
    if not rows:
        return
    meta = rows[0]._meta
    fields: list[Any] = [meta.get_field(column) for column in columns]
    key: Any = meta.pk
    quote = connection.ops.quote_name
    values = [
        tuple(field.get_db_prep_save(getattr(row, field.attname), connection) for field in (*fields, key))
        for row in rows
    ]
    changes = ", ".join(f"{quote(field.column)} = %s" for field in fields)
    statement = f"UPDATE {quote(meta.db_table)} SET {changes} WHERE {quote(key.column)} = %s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)
