"""F25 at the REST API: two people and a nervous finger on the size of one pool."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.core.clock import iso
from controlplane.operations.models import Operation
from controlplane.pools.models import Pool
from inference.contracts.states import OperationKind
from tests.control.conftest import Clock, Outbox
from tests.control.pools.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def pool(now: Clock, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Pool:
    """Decode, of size 1, on a node with room."""
    world = World(now, outbox, django_capture_on_commit_callbacks)
    world.node("a", slots=8)
    world.deploy(prefill=1, decode=1)
    world.come_up()
    return Pool.objects.get(role="decode")


@pytest.fixture
def bob(db: None) -> APIClient:
    client = APIClient()
    client.force_login(User.objects.create_superuser("bob"))
    return client


def save(client: APIClient, pool: Pool, replicas: int, *, generation: int = 1, key: str | None = None) -> HttpResponse:
    wanted = {"generation": generation, "replicas": replicas}
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.patch(f"/api/v1/pools/{pool.pk}", wanted, format="json", headers=headers)


def resizes() -> int:
    return Operation.objects.filter(kind=OperationKind.RESIZE).count()


def test_a_double_click_on_save_is_one_resize(api: APIClient, pool: Pool) -> None:
    first, again = save(api, pool, 3, key="click"), save(api, pool, 3, key="click")

    assert (first.status_code, again.status_code) == (202, 202)
    assert again["Idempotency-Replayed"] == "true"
    assert first.json()["operation"]["id"] == again.json()["operation"]["id"]
    assert resizes() == AuditEntry.objects.filter(action="pool.resize").count() == 1


def test_so_is_the_same_command_sent_twice_without_a_key(api: APIClient, pool: Pool) -> None:
    first, again = save(api, pool, 3), save(api, pool, 3)

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["operation"]["id"] == again.json()["operation"]["id"]
    assert resizes() == AuditEntry.objects.filter(action="pool.resize").count() == 1


def test_the_second_writer_is_told_what_it_is_now(api: APIClient, bob: APIClient, pool: Pool) -> None:
    save(api, pool, 5)
    refused = save(bob, pool, 2)

    assert (refused.status_code, refused.json()["code"]) == (409, "stale_generation")
    assert refused.json()["current"] == {"generation": 2, "replicas": 5}
    assert Pool.objects.get(pk=pool.pk).replicas == 5


def test_having_looked_again_the_second_writer_may_decide(api: APIClient, bob: APIClient, pool: Pool) -> None:
    save(api, pool, 5)
    current = save(bob, pool, 2).json()["current"]

    assert save(bob, pool, 2, generation=current["generation"]).status_code == 202
    assert Pool.objects.get(pk=pool.pk).replicas == 2


def test_the_audit_shows_who_and_when(api: APIClient, bob: APIClient, pool: Pool, now: Clock) -> None:
    noon = iso(now())
    save(api, pool, 5)
    now.advance(60)
    save(bob, pool, 2)
    save(bob, pool, 2, generation=2)

    shown = api.get("/api/v1/audit?action=pool.resize&order=at").json()["items"]
    assert [(item["actor"], item["at"]) for item in shown] == [
        ("ada", noon),
        ("bob", iso(now())),
    ]
    assert [(item["before"]["replicas"], item["after"]["replicas"]) for item in shown] == [(1, 5), (5, 2)]
