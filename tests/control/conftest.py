"""What the control plane's tests share: an operator, a settable clock, a Redis server, and what was sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.contrib.auth.models import User
from django.db import connection
from django.test import TransactionTestCase
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from controlplane.audit import append_only
from controlplane.core import broadcast, clock, enqueue
from controlplane.core.redis import sync_client
from inference.contracts.console import ConsoleEvent
from inference.testing.valkey import ValkeyServer

OPERATOR = "ada"


class Clock:
    """What `controlplane.core.clock.now` says."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> datetime:
        self.time += timedelta(seconds=seconds)
        return self.time


class Outbox:
    """Tasks and console events that were sent, in order, once the transaction that sent them was committed."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, tuple[object, ...], str | None]] = []
        self.events: list[ConsoleEvent] = []


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Stops the control plane's clock at noon; call it to read, `advance` to move."""
    stopped = Clock()
    monkeypatch.setattr(clock, "now", stopped)
    return stopped


@pytest.fixture
def outbox(monkeypatch: pytest.MonkeyPatch) -> Outbox:
    """Catches what would go to Celery and to consoles. Commit hooks run in transactional tests, and in others inside
    `django_capture_on_commit_callbacks(execute=True)`."""
    caught = Outbox()

    def send(task: str, args: tuple[object, ...], queue: str | None, expires_s: float | None) -> None:
        caught.tasks.append((task, args, queue))

    monkeypatch.setattr(enqueue, "_send", send)
    monkeypatch.setattr(broadcast, "append", caught.events.append)
    monkeypatch.setattr(broadcast, "append_all", caught.events.extend)
    return caught


@pytest.fixture
def operator(db: None) -> User:
    """May do everything: what roles forbid is said in the tests of roles."""
    return User.objects.create_superuser(OPERATOR, password="correct horse battery")


@pytest.fixture
def api(operator: User) -> APIClient:
    """A client with the operator's session. CSRF is not checked; see the tests of the session for that."""
    client = APIClient()
    client.force_login(operator)
    return client


@pytest.fixture(scope="session", autouse=True)
def tests_may_empty_the_audit() -> Iterator[None]:
    """Transactional tests end by emptying every table; nobody else can empty this one."""
    empty_tables = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def unprotected(test: TransactionTestCase) -> None:
        append_only.unprotect(connection)
        try:
            empty_tables(test)
        finally:
            append_only.protect(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", unprotected)
        yield


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """One server for all tests of this process. Who stops it starts it again."""
    with ValkeyServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def live_redis(valkey: ValkeyServer, settings: Settings) -> Iterator[redis.Redis]:
    """Points the control plane at an empty Redis server."""
    settings.REDIS_URL = valkey.url
    sync_client.cache_clear()
    client = sync_client()
    client.flushall()
    yield client
    client.close()
    sync_client.cache_clear()
