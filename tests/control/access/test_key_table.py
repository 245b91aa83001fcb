"""What routers get to check keys against."""

from __future__ import annotations

import pytest
import redis
from django.db import transaction
from pytest_django import Settings

from controlplane.access import services
from controlplane.access.models import KeyTableVersion, ServingKey
from controlplane.core import tables
from controlplane.core.redis import sync_client
from inference.contracts import names
from inference.contracts.auth import key_digest
from inference.contracts.routing import KeyTable
from inference.testing.valkey import ValkeyServer
from tests.control.conftest import Clock
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def published() -> KeyTable:
    table = tables.read(names.KEY_TABLE_KEY, KeyTable)
    assert table is not None
    return table


def create(name: str = "ci", days: int | None = None) -> services.IssuedKey:
    return services.key_create(name=name, created_by="ada", expires_in_days=days)


def test_a_new_key_reaches_the_routers_by_its_digest(live_redis: redis.Redis, now: Clock) -> None:
    issued = create(days=1)

    [entry] = published().keys
    assert (entry.key_id, entry.digest) == (str(issued.row.pk), key_digest(issued.raw))
    assert entry.expires_at == now().timestamp() + 86_400
    assert issued.raw.encode() not in (live_redis.get(names.KEY_TABLE_KEY) or b"")


def test_a_revoke_is_announced_the_moment_it_is_committed(live_redis: redis.Redis) -> None:
    issued = create()
    before = published().version
    with live_redis.pubsub(ignore_subscribe_messages=True) as told:
        told.subscribe(names.ROUTING_TABLE_CHANNEL)
        told.get_message(timeout=1.0)
        with transaction.atomic():
            services.key_revoke(key_id=issued.row.pk)
            assert published().version == before, "not before the commit"
        assert told.get_message(timeout=5.0) is not None

    assert published().keys == ()
    assert published().version > before


def test_a_change_that_is_rolled_back_is_not_published(live_redis: redis.Redis) -> None:
    create()
    before = published()
    with transaction.atomic():
        create("second")
        transaction.set_rollback(True)

    assert published() == before


def test_an_expired_key_leaves_the_table(live_redis: redis.Redis, now: Clock) -> None:
    create(days=1)
    now.advance(86_401)

    assert services.key_table_publish().keys == ()


def test_the_version_grows_though_the_clock_stands_still(live_redis: redis.Redis, now: Clock) -> None:
    versions = [services.key_table_publish().version for _ in range(3)]

    assert versions == sorted(set(versions))


def test_of_keys_made_at_once_none_is_missing_from_the_last_table(live_redis: redis.Redis) -> None:
    issued = at_once(*(lambda number=number: create(f"key {number}") for number in range(4)))

    assert {entry.digest for entry in published().keys} == {key_digest(key.raw) for key in issued}
    assert published().version == KeyTableVersion.objects.get().version


def test_a_key_is_made_and_kept_while_redis_is_away(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    sync_client.cache_clear()
    create()

    assert ServingKey.objects.count() == 1
    assert "table not published" in caplog.text


def test_the_sweep_publishes_again_what_redis_lost(live_redis: redis.Redis, valkey: ValkeyServer) -> None:
    create()
    before = published()
    services.key_table_refresh()
    assert published() == before, "nothing was wrong, nothing is sent"

    valkey.kill()
    services.key_table_refresh()
    valkey.start(empty=True)
    assert tables.read(names.KEY_TABLE_KEY, KeyTable) is None
    services.key_table_refresh()
    assert published().keys == before.keys
    assert published().version > before.version


def test_the_sweep_publishes_a_revoke_that_redis_missed(live_redis: redis.Redis, valkey: ValkeyServer) -> None:
    issued = create()
    valkey.stop()
    services.key_revoke(key_id=issued.row.pk)
    valkey.start()
    assert len(published().keys) == 1

    services.key_table_refresh()
    assert published().keys == ()
