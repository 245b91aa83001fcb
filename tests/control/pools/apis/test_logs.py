"""`GET /api/v1/workers/<id>/logs`: a log, asked of the worker's node while the caller waits."""

from __future__ import annotations

import pytest
import redis
from rest_framework.test import APIClient

from controlplane.fleet.models import Node
from inference.contracts.reports import LogReply
from inference.contracts.states import LogRun, NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.pools.answering import answering
from tests.control.pools.world import World

# Outside of a transaction: the request is sent at once.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def address(transactional_db: None, now: Clock, outbox: Outbox, live_redis: redis.Redis) -> str:
    """Of the log of decode-1, on a node with a key of its own."""
    world = World(now, outbox, None)
    world.node("a")
    world.deploy(prefill=1, decode=1)
    world.come_up()
    Node.objects.update(secured=True)
    return f"/api/v1/workers/{world.worker('decode-1').pk}/logs"


def test_the_last_lines_of_the_run_that_was_asked_for_come_back(
    address: str, api: APIClient, outbox: Outbox, live_redis: redis.Redis
) -> None:
    with answering(live_redis, outbox, LogReply(lines=("one", "two"))) as asked:
        answer = api.get(address, {"run": "previous", "lines": "2"})
        usual = api.get(address)

    assert (answer.status_code, answer.json()["lines"]) == (200, ["one", "two"])
    assert usual.status_code == 200
    assert [(each.worker_id, each.run, each.lines) for each in asked] == [
        (address.split("/")[4], LogRun.PREVIOUS, 2),
        (address.split("/")[4], LogRun.CURRENT, 200),
    ]


def test_why_there_is_no_log_is_a_conflict_in_words(
    address: str, api: APIClient, outbox: Outbox, live_redis: redis.Redis
) -> None:
    with answering(live_redis, outbox, LogReply(error="this node holds no log of it")):
        answer = api.get(address)

    assert (answer.status_code, answer.json()["code"]) == (409, "no_log")
    assert answer.json()["detail"] == "There is no log: this node holds no log of it."


def test_a_silent_node_is_not_asked(address: str, api: APIClient, outbox: Outbox) -> None:
    Node.objects.update(phase=NodePhase.LOST)
    sent = len(outbox.tasks)
    answer = api.get(address)

    assert (answer.status_code, answer.json()["code"]) == (409, "node_away")
    assert len(outbox.tasks) == sent


@pytest.mark.parametrize(
    ("query", "field"), [({"lines": "0"}, "lines"), ({"lines": "many"}, "lines"), ({"run": "next"}, "run")]
)
def test_what_can_not_be_asked_for_is_refused(address: str, api: APIClient, query: dict[str, str], field: str) -> None:
    answer = api.get(address, query)

    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_a_worker_that_is_not_there_is_not_found(address: str, api: APIClient) -> None:
    assert api.get("/api/v1/workers/00000000-0000-4000-8000-000000000000/logs").status_code == 404


def test_logs_are_for_people_who_are_logged_in(address: str) -> None:
    assert APIClient().get(address).status_code == 401
