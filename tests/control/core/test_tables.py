from __future__ import annotations

from datetime import UTC, datetime

import pytest
import redis

from controlplane.core import tables
from inference.contracts import names
from inference.contracts.routing import KeyTable, ServingKeyEntry

pytestmark = pytest.mark.django_db(transaction=True)

KEY = names.KEY_TABLE_KEY


def table(version: int) -> KeyTable:
    return KeyTable(version=version, keys=(ServingKeyEntry(key_id="k", digest="d"),))


def test_a_table_is_written_and_routers_are_told(live_redis: redis.Redis) -> None:
    with live_redis.pubsub(ignore_subscribe_messages=True) as told:
        told.subscribe(names.ROUTING_TABLE_CHANNEL)
        told.get_message(timeout=1.0)
        tables.publish(KEY, table(1))
        message = told.get_message(timeout=5.0)

    assert tables.read(KEY, KeyTable) == table(1)
    assert message is not None
    assert message["data"] == KEY.encode()


def test_a_table_that_comes_late_does_not_replace_a_newer_one(live_redis: redis.Redis) -> None:
    for version in (5, 4, 5):
        tables.publish(KEY, table(version))

    assert tables.read(KEY, KeyTable) == table(5)


def test_what_is_no_table_is_replaced_and_read_as_none(live_redis: redis.Redis) -> None:
    assert tables.read(KEY, KeyTable) is None
    live_redis.set(KEY, "not json")
    assert tables.read(KEY, KeyTable) is None

    tables.publish(KEY, table(1))
    assert tables.read(KEY, KeyTable) == table(1)


def test_versions_grow_also_when_the_database_or_the_clock_went_back() -> None:
    noon = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    first = tables.next_version(0, noon)
    assert tables.next_version(first, noon) == first + 1
    assert tables.next_version(first, noon.replace(hour=11)) == first + 1
    assert tables.next_version(7, noon.replace(hour=13)) > first, "7 is from an older copy of the database"
