from __future__ import annotations

from pathlib import Path

import pytest
from django.db.utils import ConnectionHandler
from django.test import Client

from controlplane.config.database import database_from_url
from controlplane.core import health

pytestmark = pytest.mark.django_db


def test_health_needs_no_login_and_says_ok() -> None:
    answer = Client().get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("url", ["sqlite:////no/such/folder/db.sqlite3", "postgresql://u:hunter2@127.0.0.1:1/tandem"])
def test_a_database_that_does_not_answer_is_told_without_details(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = ConnectionHandler({"default": database_from_url(url, tmp_path)})["default"]
    monkeypatch.setattr(health, "connection", away)

    answer = Client().get("/healthz")

    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "reasons": ["The database does not answer."]}
    assert "database does not answer" in caplog.text
    assert "hunter2" not in caplog.text
