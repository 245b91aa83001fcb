"""A worker's log, asked of its node."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from controlplane.core.errors import Conflict, Invalid
from controlplane.fleet.credentials import node_key
from controlplane.fleet.logs import LINES_MAX, log_fetch
from controlplane.fleet.models import Node
from inference.contracts import auth, codec, names
from inference.contracts.reports import LogReply
from inference.contracts.specs import LogRequest
from inference.contracts.states import LogRun, NodeDesired, NodePhase
from tests.control.fleet.messages import joined

# Outside of a transaction, as its callers are: the request is sent at once.
pytestmark = [pytest.mark.django_db(transaction=True)]

WORKER = "5f0c1b1e-0d3c-4d4e-9a55-0e6d7d1c2b3a"


class Agent:
    """Takes one message from the node's queue, checks its code and answers it."""

    def __init__(self, broker: redis.Redis, node: Node, reply: LogReply) -> None:
        self.asked: list[LogRequest] = []
        self._broker, self._node, self._reply = broker, node, reply
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Agent:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(10)

    def _run(self) -> None:
        _, message = self._broker.brpop([names.node_queue(str(self._node.pk))], timeout=2)
        (encoded, code), *_ = json.loads(base64.b64decode(json.loads(message)["body"]))
        assert auth.verify_message(node_key(self._node.pk), names.TASK_SEND_LOG, encoded, code)
        request = codec.decode(encoded, LogRequest)
        self.asked.append(request)
        self._broker.lpush(names.log_reply_key(request.request_id), codec.encode(self._reply))


@pytest.fixture
def node(live_redis: redis.Redis, point_celery: None) -> Node:
    node = joined()
    Node.objects.update(phase=NodePhase.READY)
    node.refresh_from_db()
    return node


@pytest.fixture
def point_celery(live_redis: redis.Redis, valkey: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tasks go to the test's server."""
    from controlplane.config.celery import app

    monkeypatch.setattr(app.conf, "broker_url", valkey.url)  # type: ignore[attr-defined]
    # Another test may have sent something: `close` keeps the producers and where they send to.
    monkeypatch.setattr(app.amqp, "_producer_pool", None)
    app.close()
    yield
    app.close()


def test_the_node_is_asked_and_its_lines_come_back(live_redis: redis.Redis, node: Node) -> None:
    with Agent(live_redis, node, LogReply(lines=("one", "two"))) as agent:
        assert log_fetch(node, WORKER, run=LogRun.PREVIOUS, lines=2) == ("one", "two")
    [request] = agent.asked
    assert (request.worker_id, request.run, request.lines) == (WORKER, LogRun.PREVIOUS, 2)
    assert request.request_id.startswith(f"{node.pk}:"), "the node may push to keys of its own id only"


def test_why_there_is_no_log_is_told(live_redis: redis.Redis, node: Node) -> None:
    with (
        Agent(live_redis, node, LogReply(error="this node holds no log of it")),
        pytest.raises(Conflict, match="holds no log"),
    ):
        log_fetch(node, WORKER)


def test_a_node_that_does_not_answer_is_not_waited_for_longer_than_allowed(node: Node) -> None:
    with pytest.raises(Conflict, match=r"within 0\.2 s") as refused:
        log_fetch(node, WORKER, within_s=0.2)
    assert refused.value.code == "log_late"


@pytest.mark.parametrize("lines", [0, -1, LINES_MAX + 1])
def test_the_number_of_lines_has_bounds(node: Node, lines: int) -> None:
    with pytest.raises(Invalid, match=str(LINES_MAX)):
        log_fetch(node, WORKER, lines=lines)


def lost(node: Node) -> None:
    node.phase = NodePhase.LOST


def retired(node: Node) -> None:
    node.desired = NodeDesired.RETIRED


def without_key(node: Node) -> None:
    node.secured = False


@pytest.mark.parametrize(
    ("change", "code"), [(lost, "node_away"), (retired, "node_away"), (without_key, "node_too_old")]
)
def test_a_node_that_cannot_answer_is_not_asked(
    live_redis: redis.Redis, node: Node, change: Callable[[Node], None], code: str
) -> None:
    change(node)
    with pytest.raises(Conflict) as refused:
        log_fetch(node, WORKER)
    assert refused.value.code == code
    assert not live_redis.llen(names.node_queue(str(node.pk)))
