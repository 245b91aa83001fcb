from __future__ import annotations

from uuid import uuid4

import pytest
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.operations.services import Target, operation_finish, operation_step
from inference.contracts.states import OperationState
from tests.control.conftest import Clock
from tests.control.operations.records import P2, start

pytestmark = pytest.mark.django_db


def test_operations_are_listed_newest_first(api: APIClient, now: Clock) -> None:
    first = start()
    now.advance(5)
    second = start(targets=(P2,))

    listed = api.get("/api/v1/operations").json()["items"]
    assert [operation["id"] for operation in listed] == [str(second.pk), str(first.pk)]


def test_the_list_comes_in_pages(api: APIClient, now: Clock) -> None:
    for number in range(5):
        now.advance(1)
        start(targets=(Target("pool", f"p{number}", "chat/decode"),), title=f"Resize {number}")

    first = api.get("/api/v1/operations?limit=3").json()
    second = api.get(f"/api/v1/operations?limit=3&cursor={first['next']}").json()
    titles = [operation["title"] for operation in first["items"] + second["items"]]
    assert titles == [f"Resize {number}" for number in (4, 3, 2, 1, 0)]
    assert second["next"] is None


def test_listing_costs_the_same_however_many_there_are(
    api: APIClient, django_assert_num_queries: DjangoAssertNumQueries, now: Clock
) -> None:
    for number in range(5):
        operation_step(start(targets=(Target("pool", f"p{number}", "chat/decode"),)), "started")

    with django_assert_num_queries(5):  # session, user, operations, steps, targets
        api.get("/api/v1/operations")


def test_one_operation_tells_its_whole_story(api: APIClient, now: Clock) -> None:
    operation = start()
    now.advance(1.5)
    operation_step(operation, "2 of 2 ready")
    operation_finish(operation, OperationState.SUCCEEDED, "Done.")

    shown = api.get(f"/api/v1/operations/{operation.pk}").json()
    assert shown == {
        "id": str(operation.pk),
        "kind": "resize",
        "state": "succeeded",
        "target": "chat/decode",
        "title": "Resize decode to 2",
        "requested_by": "ada",
        "reason": "evening traffic",
        "before": "1 replica",
        "after": "2 replicas",
        "progress": 1.0,
        "outcome": "Done.",
        "started_at": "2026-03-01T12:00:00.000Z",
        "finished_at": "2026-03-01T12:00:01.500Z",
        "steps": [{"at": "2026-03-01T12:00:01.500Z", "text": "2 of 2 ready"}],
    }


def test_an_unknown_operation_is_not_found(api: APIClient) -> None:
    answer = api.get(f"/api/v1/operations/{uuid4()}")

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"
