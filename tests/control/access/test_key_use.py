"""When keys were last used: from the routers' hash in Redis to the rows."""

from __future__ import annotations

import pytest
import redis

from controlplane.access import services
from controlplane.access.key_use import key_use_collect
from controlplane.access.models import ServingKey
from controlplane.core.redis import sync_client
from inference.contracts import names
from tests.control.conftest import Clock

pytestmark = pytest.mark.django_db


def used(client: redis.Redis, at: float, key: ServingKey) -> None:
    client.hset(names.KEY_USE_KEY, str(key.pk), int(at))


def test_the_last_use_is_copied_and_never_goes_back(live_redis: redis.Redis, now: Clock) -> None:
    key, idle = (services.key_create(name=name, created_by="ada").row for name in ("ci", "idle"))
    used(live_redis, now().timestamp(), key)
    key_use_collect(now=now())
    key.refresh_from_db()
    assert key.last_used_at == now()

    used(live_redis, now().timestamp() - 3600, key)
    key_use_collect(now=now())
    key.refresh_from_db()
    idle.refresh_from_db()
    assert (key.last_used_at, idle.last_used_at) == (now(), None)


def test_a_busy_key_is_written_once_a_minute(
    live_redis: redis.Redis, now: Clock, django_assert_num_queries: object
) -> None:
    key = services.key_create(name="ci", created_by="ada").row
    used(live_redis, now().timestamp(), key)
    key_use_collect(now=now())
    used(live_redis, now.advance(59).timestamp(), key)
    key_use_collect(now=now())
    key.refresh_from_db()
    assert (now() - key.last_used_at).total_seconds() == 59

    used(live_redis, now.advance(1).timestamp(), key)
    key_use_collect(now=now())
    key.refresh_from_db()
    assert key.last_used_at == now()


def test_a_router_whose_clock_is_ahead_does_not_write_the_future(live_redis: redis.Redis, now: Clock) -> None:
    key = services.key_create(name="ci", created_by="ada").row
    used(live_redis, now().timestamp() + 3600, key)
    key_use_collect(now=now())
    key.refresh_from_db()

    assert key.last_used_at == now()


def test_what_is_unreadable_or_unknown_is_passed_over(
    live_redis: redis.Redis, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    key = services.key_create(name="ci", created_by="ada").row
    for field, value in (
        ("no-id", "1"),
        (b"\xff\xfe", "1"),
        ("6a8d1b1e-0000-4000-8000-000000000000", "1"),
        (str(key.pk), "soon"),
    ):
        live_redis.hset(names.KEY_USE_KEY, field, value)
    key_use_collect(now=now())
    live_redis.hset(names.KEY_USE_KEY, str(key.pk), "9" * 30)
    key_use_collect(now=now())

    assert "unreadable use of a key" in caplog.text
    assert not ServingKey.objects.filter(last_used_at__isnull=False).exists()


def test_redis_away_is_no_trouble(now: Clock, caplog: pytest.LogCaptureFixture) -> None:
    sync_client.cache_clear()
    key_use_collect(now=now())

    assert "key use not read" in caplog.text
