"""A node's own Redis user: enough for a real agent, and for nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis
from celery import Celery
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from controlplane.core.errors import Conflict
from controlplane.core.redis import sync_client
from controlplane.fleet.broker import credentials_ensure, node_url, user_name
from controlplane.fleet.credentials import message_args, report_read
from controlplane.fleet.desired import node_retire
from controlplane.fleet.joining import join_token_create, node_join
from controlplane.fleet.models import JoinToken, Node
from inference.contracts import codec, names
from inference.contracts.reports import NodeReport
from inference.contracts.specs import LogRequest, NodeSpec
from inference.testing.valkey import ValkeyServer
from tests.control.conftest import Clock
from tests.control.fleet.messages import hello, joined
from tests.inference.agent.agent_under_test import AgentUnderTest

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def broker(live_redis: redis.Redis, valkey: ValkeyServer, settings: Settings) -> Iterator[redis.Redis]:
    """The control plane's own connection to an empty server that knows no node."""
    settings.NODE_REDIS_URL = valkey.url
    drop_users(live_redis)
    yield live_redis
    drop_users(live_redis)


def drop_users(server: redis.Redis) -> None:
    users = [user for user in server.acl_users() if user != "default"]
    if users:
        server.acl_deluser(*users)


def connect(node: Node) -> redis.Redis:
    return redis.Redis.from_url(node_url(node))


def test_the_welcome_names_the_node_s_own_user(broker: redis.Redis) -> None:
    welcome = node_join(token=join_token_create(created_by="ada").raw, hello=hello(), remote_address="")

    assert f"//node-{welcome.node_id}:" in welcome.redis_url
    assert redis.Redis.from_url(welcome.redis_url).ping()
    assert Node.objects.get().scoped


def test_it_may_use_its_own_queue_and_append_to_what_all_share(broker: redis.Redis) -> None:
    node = joined()
    client, queue = connect(node), names.node_queue(str(node.pk))
    client.lpush(queue, "spec")
    assert client.brpop([queue], timeout=1) == (queue.encode(), b"spec")
    client.lpush(names.CONTROL_QUEUE, "report")
    assert client.llen(names.CONTROL_QUEUE) == 1
    client.xadd(names.WINDOW_STREAM, {"m": "x"}, maxlen=10)
    reply = names.log_reply_key(f"{node.pk}:1")
    client.lpush(reply, "log")
    client.expire(reply, 10)


@pytest.mark.parametrize(
    "command",
    [
        "BRPOP {other} 1",
        "LPUSH {other} x",
        "LRANGE {other} 0 -1",
        "BRPOP control 1",
        "RPOP control",
        "LRANGE control 0 -1",
        "DEL control",
        "SADD _kombu.binding.control x",
        "SMEMBERS _kombu.binding.control",
        "GET tandem:keys",
        "GET tandem:routing",
        "SET tandem:routing x",
        "XRANGE tandem:console - +",
        "XREAD STREAMS tandem:console 0",
        "XADD tandem:console * m x",
        "XRANGE tandem:windows - +",
        "HGETALL tandem:keys:used",
        "LPUSH tandem:log:other:1 x",
        "SUBSCRIBE tandem:routing:changed",
        "PUBLISH tandem:routing:changed x",
        "KEYS *",
        "SCAN 0",
        "EVAL return 0",
        "CONFIG GET *",
        "ACL LIST",
        "FLUSHALL",
        "SHUTDOWN",
        "INFO",
        "MONITOR",
    ],
)
def test_it_may_not(broker: redis.Redis, command: str) -> None:
    client = connect(joined())
    for known in ("control", "tandem:keys"):
        broker.delete(known)
    other = names.node_queue(str(joined(hostname="beta").pk))
    broker.lpush(other, "spec of another node")
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command.format(other=other).split())


def test_a_real_agent_works_with_it(broker: redis.Redis, valkey: ValkeyServer, tmp_path: Path, now: Clock) -> None:
    """It takes specs and sends reports, both signed, answers for logs, and is refused nothing on the way."""
    welcome = node_join(token=join_token_create(created_by="ada").raw, hello=hello(), remote_address="")
    node = Node.objects.get()
    agent = AgentUnderTest(tmp_path, valkey)
    member = agent.state.membership
    assert member is not None
    agent.state.save_membership(msgspec.structs.replace(member, welcome=msgspec.structs.replace(welcome)))
    control = Celery(broker=valkey.url, set_as_current=False, fixups=[])
    broker.execute_command("ACL", "LOG", "RESET")

    def send(task: str, message: str) -> None:
        control.send_task(task, args=message_args(node, task, message), queue=names.node_queue(str(node.pk)))

    with agent:
        send(names.TASK_APPLY_NODE_SPEC, codec.encode_text(NodeSpec(node_id=str(node.pk), generation=7, workers=())))
        report = agent.wait_for(lambda: observed(newest_signed(broker, now), 7))
        request = LogRequest(request_id=f"{node.pk}:1", worker_id="5f0c1b1e-0d3c-4d4e-9a55-0e6d7d1c2b3a")
        send(names.TASK_SEND_LOG, codec.encode_text(request))
        assert broker.brpop([names.log_reply_key(request.request_id)], timeout=20)
    control.close()

    assert report.node_id == str(node.pk)
    assert broker.acl_log() == []


def newest_signed(broker: redis.Redis, now: Clock) -> NodeReport | None:
    """The newest report in the control plane's queue, whose code is right."""
    message = broker.lindex(names.CONTROL_QUEUE, 0)
    if message is None:
        return None
    (encoded, code), *_ = json.loads(base64.b64decode(json.loads(message)["body"]))
    received = report_read(encoded, code, at=now())
    assert received is not None
    assert received.signed
    return received.report


def observed(report: NodeReport | None, generation: int) -> NodeReport | None:
    return report if report is not None and report.observed_generation >= generation else None


def test_the_sweep_makes_the_users_again_that_redis_lost(broker: redis.Redis, valkey: ValkeyServer) -> None:
    nodes = [joined(hostname=name) for name in ("alpha", "beta")]
    valkey.kill()
    valkey.start()
    assert broker.acl_users() == ["default"]

    credentials_ensure()

    assert all(connect(node).ping() for node in nodes)


def test_the_sweep_leaves_users_alone_that_are_there(broker: redis.Redis) -> None:
    client = connect(joined())
    credentials_ensure()
    client.ping()
    broker.acl_setuser(user_name(Node.objects.get().pk), enabled=True, keys=["more"], reset=False)
    rules = broker.acl_list()

    credentials_ensure()
    assert broker.acl_list() == rules


def test_the_sweep_writes_all_users_again_when_their_rules_are_not_those_of_this_release(broker: redis.Redis) -> None:
    node = joined()
    credentials_ensure()
    broker.acl_setuser(user_name(node.pk), reset=True)
    broker.set("tandem:node-rules", "those of the release before")

    credentials_ensure()
    assert connect(node).ping()


def test_a_node_that_joined_while_redis_was_away_gets_its_user_from_the_sweep(
    broker: redis.Redis, valkey: ValkeyServer
) -> None:
    valkey.stop()
    node = joined()
    valkey.start()
    credentials_ensure()

    assert connect(node).ping()


def test_a_retired_node_is_cut_off(
    broker: redis.Redis, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    node = joined()
    client = connect(node)
    client.ping()
    with django_capture_on_commit_callbacks(execute=True):
        node_retire(node.pk)

    with pytest.raises(redis.RedisError):
        client.ping()
    with pytest.raises(redis.exceptions.AuthenticationError):
        connect(node).ping()
    credentials_ensure()
    assert user_name(node.pk) not in broker.acl_users()


@pytest.fixture
def without_acl(broker: redis.Redis, valkey: ValkeyServer, settings: Settings) -> None:
    """The control plane may do everything at this server but make users."""
    broker.acl_setuser("control", enabled=True, passwords=["+pw"], commands=["+@all", "-acl"], keys=["*"])
    settings.REDIS_URL = settings.NODE_REDIS_URL = f"redis://control:pw@127.0.0.1:{valkey.port}/0"
    sync_client.cache_clear()


def test_a_server_that_gives_no_users_is_shared_and_that_is_shown(
    without_acl: None, settings: Settings, api: APIClient
) -> None:
    token = join_token_create(created_by="ada").raw
    welcome = node_join(token=token, hello=hello(), remote_address="")

    assert welcome.redis_url == settings.NODE_REDIS_URL
    [node] = api.get("/api/v1/nodes").json()["items"]
    assert any("Redis credentials reach everything" in warning for warning in node["warnings"])
    credentials_ensure()


def test_nodes_can_be_refused_where_they_would_have_to_share(without_acl: None, settings: Settings) -> None:
    settings.REQUIRE_SCOPED_NODES = True
    token = join_token_create(created_by="ada").raw
    with pytest.raises(Conflict, match="ACL"):
        node_join(token=token, hello=hello(), remote_address="")

    assert not Node.objects.exists()
    assert JoinToken.objects.get().used_at is None
