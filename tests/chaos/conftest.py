"""A running Tandem on PostgreSQL, whose servers and processes the tests take away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer, postgres_server
from tests.rest import Operator
from tests.stack import Stack, running_stack


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


# Of the package, not the session: the machine has room for one stack at a time.
@pytest.fixture(scope="package")
def stack(
    tmp_path_factory: pytest.TempPathFactory, default_model_dir: Path, postgres: PostgresServer
) -> Iterator[Stack]:
    environment = {"DATABASE_URL": postgres.url}
    with running_stack(tmp_path_factory.mktemp("data"), default_model_dir, environment) as running:
        yield running


@pytest.fixture
def operator(stack: Stack) -> Operator:
    return Operator(stack.console_url, stack.admin_password)
