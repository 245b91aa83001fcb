from __future__ import annotations

import socket
from pathlib import Path

import pytest
from django.db.utils import ConnectionHandler
from django.test import Client
from pytest_django import Settings

from controlplane.config.database import database_from_url
from controlplane.core.rest import health

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("live_redis")
def test_health_needs_no_login_and_says_ok() -> None:
    answer = Client().get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "redis": "ok"})


def test_redis_being_away_is_told_and_is_no_reason_to_start_afresh(settings: Settings) -> None:
    settings.REDIS_URL = "redis://:hunter2@127.0.0.1:1/0"
    answer = Client().get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "redis": "away"})


def test_a_redis_that_hangs_does_not_hold_the_answer(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        settings.REDIS_URL = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0"
        assert Client().get("/healthz").json()["redis"] == "away"


@pytest.mark.parametrize("url", ["sqlite:////no/such/folder/db.sqlite3", "postgresql://u:hunter2@127.0.0.1:1/tandem"])
def test_a_database_that_does_not_answer_is_told_without_details(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = ConnectionHandler({"default": database_from_url(url, tmp_path)})["default"]
    monkeypatch.setattr(health, "connection", away)

    answer = Client().get("/healthz")

    assert answer.status_code == 503
    refusal = answer.json()
    assert (refusal["status"], refusal["reasons"]) == ("unavailable", ["The database does not answer."])
    assert "database does not answer" in caplog.text
    assert "hunter2" not in caplog.text
