from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from controlplane.core.principal import Principal
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, Target, operation_finish, operation_step
from inference.contracts.states import OperationKind, OperationState, StepState, UserRole
from tests.control.conftest import OPERATOR, Clock
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import CHAT, P1, P2, start

pytestmark = pytest.mark.django_db


def titles(api: APIClient, query: str = "") -> list[str]:
    answer = api.get(f"/api/v1/operations{query}")
    assert answer.status_code == 200, answer.json()
    return [operation["title"] for operation in answer.json()["items"]]


def as_principal(operator: User, **what: Any) -> APIClient:
    """A client with a management token of these roles."""
    client = APIClient()
    client.force_authenticate(operator, Principal(name="ci", **what))
    return client


def test_operations_are_listed_newest_first(api: APIClient, now: Clock) -> None:
    start(title="first")
    now.advance(5)
    start(P2, title="second")

    assert titles(api) == ["second", "first"]


def test_the_list_comes_in_pages(api: APIClient, now: Clock) -> None:
    for number in range(5):
        now.advance(1)
        start(Target("pool", f"p{number}", "chat/decode"), title=f"Resize {number}")

    first = api.get("/api/v1/operations?limit=3").json()
    second = api.get(f"/api/v1/operations?limit=3&cursor={first['next']}").json()
    shown = [operation["title"] for operation in first["items"] + second["items"]]
    assert shown == [f"Resize {number}" for number in (4, 3, 2, 1, 0)]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("state=running", ["roll out"]),
        ("state=queued", ["resize"]),
        ("kind=delete", ["delete"]),
        ("requested_by=bob", ["delete"]),
        ("deployment=chat", ["resize", "roll out"]),
        ("text=Gone", ["delete"]),
        ("text=evening", ["resize", "roll out", "delete"]),
        ("target=pool:p1", ["resize", "roll out"]),
        ("target=deployment:1", ["delete"]),
        ("target=node:p1", []),
        ("target=pool:p1&state=queued", ["resize"]),
    ],
)
def test_the_list_can_be_narrowed(api: APIClient, now: Clock, query: str, found: list[str]) -> None:
    gone = start(CHAT, kind=OperationKind.DELETE, title="delete", requested_by="bob")
    operation_finish(gone, OperationState.SUCCEEDED, "All workers are gone.")
    now.advance(1)
    start(P1, P2, kind=OperationKind.ROLL_OUT, title="roll out", deployment="chat")
    now.advance(1)
    start(P1, title="resize", on_conflict=OnConflict.QUEUE, deployment="chat")

    assert titles(api, f"?{query}") == found


def test_a_target_that_is_none_is_refused(api: APIClient) -> None:
    answer = api.get("/api/v1/operations?target=p1")

    assert (answer.status_code, answer.json()["field"]) == (400, "target")


def test_listing_costs_the_same_however_many_there_are_and_wait(api: APIClient) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert api.get("/api/v1/operations").status_code == 200
        return len(captured)

    def some(number: int) -> None:
        target = Target("pool", f"p{number}", "chat/decode")
        operation_step(start(target, kind=OperationKind.ROLL_OUT), "started")
        start(target, on_conflict=OnConflict.QUEUE)

    some(0)
    queries()  # the first request of all fills caches
    one = queries()
    for number in range(1, 6):
        some(number)
    assert queries() == one


def test_one_operation_tells_its_whole_story(api: APIClient, now: Clock) -> None:
    operation = start(P1, P2)
    now.advance(1.5)
    operation_step(operation, "2 of 2 ready", key="ready", state=StepState.RUNNING, cause="resize")
    now.advance(1)
    operation_finish(operation, OperationState.SUCCEEDED, "Done.")

    shown = api.get(f"/api/v1/operations/{operation.pk}").json()
    assert shown == {
        "id": str(operation.pk),
        "kind": "resize",
        "state": "succeeded",
        "target": "chat/decode",
        "targets": [
            {"kind": "pool", "id": "p1", "name": "chat/decode", "href": "/pools?pool=p1"},
            {"kind": "pool", "id": "p2", "name": "chat/prefill", "href": "/pools?pool=p2"},
        ],
        "title": "Resize decode to 2",
        "requested_by": "ada",
        "reason": "evening traffic",
        "before": "1 replica",
        "after": "2 replicas",
        "preview": None,
        "progress": 1.0,
        "outcome": "Done.",
        "requested_at": "2026-03-01T12:00:00.000Z",
        "started_at": "2026-03-01T12:00:00.000Z",
        "finished_at": "2026-03-01T12:00:02.500Z",
        "steps": [
            {
                "at": "2026-03-01T12:00:01.500Z",
                "text": "2 of 2 ready",
                "state": "done",
                "finished_at": "2026-03-01T12:00:02.500Z",
                "cause": "resize",
            }
        ],
        "queued_behind": [],
        "retry_of": None,
        "cancellable": False,
        "retryable": False,
    }


def test_it_says_what_can_be_done_now_and_what_it_waits_for(api: APIClient) -> None:
    roll_out = start(kind=OperationKind.ROLL_OUT)
    waiting = start(on_conflict=OnConflict.QUEUE)

    shown = {each["id"]: each for each in api.get("/api/v1/operations").json()["items"]}
    assert not shown[str(roll_out.pk)]["cancellable"]
    assert shown[str(waiting.pk)]["cancellable"]
    assert shown[str(waiting.pk)]["started_at"] is None
    assert shown[str(waiting.pk)]["queued_behind"] == [str(roll_out.pk)]


def test_an_unknown_operation_is_not_found(api: APIClient) -> None:
    for answer in (
        api.get(f"/api/v1/operations/{uuid4()}"),
        api.post(f"/api/v1/operations/{uuid4()}/cancel", {}, format="json"),
        api.post(f"/api/v1/operations/{uuid4()}/retry", {}, format="json"),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == "not_found"


def test_an_operation_is_cancelled_and_then_tried_again(api: APIClient, wanted: Wanted) -> None:
    operation = start()
    cancelled = api.post(f"/api/v1/operations/{operation.pk}/cancel", {"reason": "wrong pool"}, format="json")
    assert cancelled.status_code == 200, cancelled.json()
    assert (cancelled.json()["state"], cancelled.json()["retryable"]) == ("cancelled", True)
    assert cancelled.json()["outcome"] == f"Cancelled by {OPERATOR}: wrong pool. 1 replica is wanted again."

    again = api.post(f"/api/v1/operations/{operation.pk}/retry", {"reason": "it was right"}, format="json")
    assert again.status_code == 202, again.json()
    assert (again.json()["retry_of"], again.json()["state"]) == (str(operation.pk), "running")
    assert (again.json()["reason"], again.json()["requested_by"]) == ("it was right", OPERATOR)


def test_a_retry_may_wait_where_it_says_so(api: APIClient) -> None:
    operation = start()
    operation_finish(operation, OperationState.FAILED, "No device is free.")
    start(kind=OperationKind.ROLL_OUT)
    path = f"/api/v1/operations/{operation.pk}/retry"

    refused = api.post(path, {}, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "operation_conflict")
    assert api.post(f"{path}?on_conflict=queue", {}, format="json").json()["state"] == "queued"
    assert api.post(f"{path}?on_conflict=hope", {}, format="json").status_code == 400


def test_a_trial_run_cancels_nothing(api: APIClient) -> None:
    operation = start()
    answer = api.post(f"/api/v1/operations/{operation.pk}/cancel?dry_run=true", {}, format="json")

    assert answer.json()["state"] == "cancelled"
    assert Operation.objects.get(pk=operation.pk).state == OperationState.RUNNING


def test_who_may_only_look_cancels_nothing(operator: User) -> None:
    operation = start(deployment="chat")
    path = f"/api/v1/operations/{operation.pk}/cancel"

    assert as_principal(operator).post(path, {}, format="json").status_code == 403
    elsewhere = as_principal(operator, grants={"code": UserRole.OPERATOR})
    assert elsewhere.post(path, {}, format="json").status_code == 403
    here = as_principal(operator, grants={"chat": UserRole.OPERATOR})
    assert here.post(path, {}, format="json").status_code == 200


def test_who_may_see_some_deployments_sees_their_operations_only(operator: User) -> None:
    start(P1, deployment="chat", title="chat")
    start(P2, deployment="code", title="code")
    start(CHAT, title="of no deployment")

    assert titles(as_principal(operator, only=frozenset({"chat"}))) == ["chat"]


def test_what_is_done_to_nodes_tells_of_all_deployments_so_a_narrow_token_may_not_see_it(operator: User) -> None:
    operation = start(Target("node", "n1", "alpha"), title="Drain alpha")
    path = f"/api/v1/operations/{operation.pk}"

    assert as_principal(operator).get(path).status_code == 200
    refused = as_principal(operator, only=frozenset({"chat"})).get(path)
    assert refused.status_code == 403
    assert "viewer, which" in refused.json()["detail"]
