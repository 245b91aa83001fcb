from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from inference.agent.app import ControlQueue, make_app
from inference.agent.control.reporter import NotAdmitted, SendFailed
from inference.contracts.names import CONTROL_QUEUE
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.node_under_test import NODE
from tests.inference.agent.scoped_broker import drop_user, make_user, refusals


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    with ValkeyServer(tmp_path / "valkey") as server:
        yield server


def queue_at(url: str, backlog: int = 10) -> ControlQueue:
    return ControlQueue(make_app(url, NODE), timeout_s=1.0, backlog=backlog)


def test_a_report_travels_with_its_code_and_needs_no_more_than_the_nodes_own_user_may(broker: ValkeyServer) -> None:
    queue = queue_at(make_user(broker))
    queue.send("the report", "its code")
    queue.close()
    with redis.Redis.from_url(broker.url) as admin:
        [message] = admin.lrange(CONTROL_QUEUE, 0, -1)
    headers = json.loads(message)["headers"]
    assert headers["task"] == "control.record_node_report"
    assert headers["argsrepr"] == "['the report', 'its code']"
    assert refusals(broker) == []


def test_credentials_that_the_broker_does_not_take_any_more_are_told_apart_from_one_that_is_away(
    broker: ValkeyServer,
) -> None:
    queue = queue_at(make_user(broker))
    queue.send("1", "")
    drop_user(broker)
    with pytest.raises(SendFailed):  # the connection that is open may be cut before it is refused
        queue.send("2", "")
    with pytest.raises(NotAdmitted):
        queue.send("3", "")
    make_user(broker)
    queue.send("4", "")
    broker.stop()
    with pytest.raises(SendFailed) as failed:
        queue.send("5", "")
    assert not isinstance(failed.value, NotAdmitted)
    queue.close()


def test_what_the_user_may_not_do_is_told_as_not_admitted(broker: ValkeyServer) -> None:
    url = make_user(broker)
    with redis.Redis.from_url(broker.url) as admin:
        admin.execute_command("ACL", "SETUSER", NODE, "-lpush")
    queue = queue_at(url)
    with pytest.raises(NotAdmitted):
        queue.send("1", "")
    queue.close()


def test_reports_are_held_back_while_the_control_plane_is_far_behind(broker: ValkeyServer) -> None:
    queue = queue_at(make_user(broker), backlog=2)
    queue.send("1", "")
    queue.send("2", "")
    with pytest.raises(SendFailed, match="2 messages wait"):
        queue.send("3", "")
    queue.close()
