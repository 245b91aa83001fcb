"""The console's REST endpoints."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from controlplane.catalog.services import model_create
from inference.contracts import codec
from inference.contracts.console import Snapshot
from tests.control.console.events import send, tick

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("live_redis")
def test_the_snapshot_has_the_state_and_the_position_after_which_events_go_on(api: APIClient) -> None:
    model_create(name="known", path="/models/known")
    position = send(tick(1_800_000_000))
    answer = api.get("/api/v1/snapshot")
    assert answer["Content-Type"] == "application/json"
    shown = codec.decode(answer.content, Snapshot)
    assert [model.name for model in shown.models] == ["known"]
    assert [frame.second for frame in shown.frames] == [1_800_000_000]
    assert shown.seq == position


def test_without_redis_the_snapshot_has_the_state_of_the_database(api: APIClient) -> None:
    model_create(name="known", path="/models/known")
    shown = codec.decode(api.get("/api/v1/snapshot").content, Snapshot)
    assert (shown.seq, [model.name for model in shown.models]) == ("0-0", ["known"])


def test_clients_are_told_the_routers_public_address(api: APIClient, settings: Settings) -> None:
    settings.PUBLIC_ROUTER_URL = "https://llm.example"
    assert api.get("/api/v1/playground/info").json() == {"serving_url": "https://llm.example"}


@pytest.mark.parametrize("path", ["snapshot", "playground/info"])
def test_a_login_is_needed(client: Client, path: str) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 401
    assert answer.json()["code"] == "not_authenticated"
