"""Tasks and console events: on commit, and never at the cost of the request."""

from __future__ import annotations

import json
from collections.abc import Iterator

import kombu.pools
import pytest
import redis
from celery import Celery
from django.db import transaction
from pytest_django import Settings

from controlplane.config import celery
from controlplane.core.broadcast import broadcast
from controlplane.core.enqueue import enqueue
from controlplane.core.redis import sync_client
from inference.contracts import codec, names
from inference.contracts.console import ConsoleEvent, DeploymentRemoved
from inference.testing.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(transaction=True)

GONE = DeploymentRemoved(name="chat")


def celery_at(url: str) -> Celery:
    """The control plane's application with another broker."""
    settings = ("task_default_queue", "broker_transport_options", "task_ignore_result")
    return Celery("controlplane", broker=url, changes={name: celery.app.conf[name] for name in settings})


@pytest.fixture
def live_celery(live_redis: redis.Redis, valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(celery, "app", celery_at(valkey.url))
    yield
    kombu.pools.reset()


def queued(client: redis.Redis, queue: str) -> list[str]:
    return [json.loads(message)["headers"]["task"] for message in client.lrange(queue, 0, -1)]


def events(client: redis.Redis) -> list[ConsoleEvent]:
    written = client.xrange(names.CONSOLE_STREAM)
    return [codec.decode(fields[names.STREAM_FIELD.encode()], ConsoleEvent) for _, fields in written]


def test_tasks_and_events_leave_when_the_transaction_commits_and_not_before(
    live_redis: redis.Redis, live_celery: None
) -> None:
    with transaction.atomic():
        broadcast(GONE)
        enqueue(names.TASK_SWEEP)
        assert (events(live_redis), queued(live_redis, names.CONTROL_QUEUE)) == ([], [])

    assert events(live_redis) == [GONE]
    assert queued(live_redis, names.CONTROL_QUEUE) == [names.TASK_SWEEP]


def test_what_is_rolled_back_is_never_sent(live_redis: redis.Redis, live_celery: None) -> None:
    with transaction.atomic():
        broadcast(GONE)
        enqueue(names.TASK_SWEEP)
        transaction.set_rollback(True)

    assert (events(live_redis), queued(live_redis, names.CONTROL_QUEUE)) == ([], [])


def test_a_task_goes_to_the_queue_of_its_node_and_nobody_else(live_redis: redis.Redis, live_celery: None) -> None:
    enqueue(names.TASK_APPLY_NODE_SPEC, "{}", queue=names.node_queue("n1"))

    assert queued(live_redis, "node.n1") == [names.TASK_APPLY_NODE_SPEC]
    assert queued(live_redis, names.CONTROL_QUEUE) == []


def test_with_redis_away_a_change_is_kept_and_nobody_waits_for_retries(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def waited(seconds: float) -> None:
        raise AssertionError(f"a sender slept {seconds} s before trying again")

    monkeypatch.setattr("kombu.utils.functional.sleep", waited)
    monkeypatch.setattr(celery, "app", celery_at(settings.REDIS_URL))
    sync_client.cache_clear()

    with transaction.atomic():
        broadcast(GONE)
        enqueue(names.TASK_SWEEP)

    assert "console event not sent" in caplog.text
    assert "task not sent" in caplog.text


def test_sending_works_again_when_redis_is_back(
    live_redis: redis.Redis, live_celery: None, valkey: ValkeyServer
) -> None:
    enqueue(names.TASK_SWEEP)
    broadcast(GONE)
    valkey.kill()
    enqueue(names.TASK_SWEEP)
    broadcast(GONE)
    valkey.start(empty=True)
    enqueue(names.TASK_SWEEP)
    broadcast(GONE)

    assert events(live_redis) == [GONE]
    assert queued(live_redis, names.CONTROL_QUEUE) == [names.TASK_SWEEP]
