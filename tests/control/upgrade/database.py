"""The tests' database as other processes, other releases and accidents leave it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from django.db import connection

from tests.stack import ROOT

#: Dies like a process that is killed, in the middle of `migrate`: after so many statements.
_KILLED = """
import os, sys
from django.db import connection
def count(execute, sql, params, many, context, left=[int(sys.argv.pop())]):
    left[0] -= 1
    if left[0] < 0:
        os._exit(137)
    return execute(sql, params, many, context)
import django; django.setup()
from django.core.management import call_command
connection.execute_wrappers.append(count)
call_command("migrate", verbosity=0)
connection.execute_wrappers.clear()
"""


def url() -> str:
    """DATABASE_URL of the tests' own database, for another process."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    password = f":{values['PASSWORD']}" if values["PASSWORD"] else ""
    return f"postgresql://{values['USER']}{password}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


def drop_tables() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        return
    with connection.constraint_checks_disabled(), connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"DROP TABLE {connection.ops.quote_name(table)}")


def content() -> str:
    """A digest of every row of every table, and of the tables' columns."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for table in sorted(connection.introspection.table_names(cursor)):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            columns = [column[0] for column in cursor.description]
            digest.update(repr((table, columns, sorted(map(repr, cursor.fetchall())))).encode())
    return digest.hexdigest()


def run(*arguments: str, data: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` in a process of its own, on this database unless `more` of its environment names another."""
    connection.close()  # whoever drops or alters tables waits for nobody here
    environment = {
        **os.environ,
        "DATABASE_URL": url(),
        "TANDEM_DATA": str(data),
        "TANDEM_SECRET_KEY": "tests",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]),
        **more,
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def migrate_and_be_killed(after_statements: int, data: Path) -> subprocess.CompletedProcess[str]:
    return run("-c", _KILLED, str(after_statements), data=data)
