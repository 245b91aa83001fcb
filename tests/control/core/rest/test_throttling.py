"""Claims about rate limits: per caller, across processes, and never the reason for a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.core.principal import Principal
from controlplane.core.redis import quick_client
from controlplane.core.rest import throttling
from controlplane.core.rest.throttling import Counter
from inference.contracts.states import UserRole
from inference.testing.valkey import ValkeyServer
from tests.control.core.rest.shelf import BOOKS, DESK

pytestmark = pytest.mark.usefixtures("shelf")


class Time:
    """What the throttle takes for the time."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Time:
    """Ten seconds into a minute, three reads and two writes a minute, and nothing counted yet."""
    settings.API_READS_PER_MINUTE, settings.API_WRITES_PER_MINUTE = 3, 2
    stopped = Time(60_010.0)
    monkeypatch.setattr(throttling, "time", stopped)
    monkeypatch.setattr(throttling, "counter", Counter())
    return stopped


def caller(name: str) -> APIClient:
    client = APIClient()
    client.force_authenticate(User(username=name), token=Principal(name=name, role=UserRole.ADMIN))
    return client


@pytest.mark.django_db
def test_one_request_too_many_is_429_and_says_when_to_come_back(time: Time) -> None:
    eve = caller("eve")
    assert [eve.get(BOOKS).status_code for _ in range(4)] == [200, 200, 200, 429]
    refused = eve.get(BOOKS)

    assert (refused.json()["code"], refused["Retry-After"]) == ("rate_limited", "51")
    time.now += 51
    assert eve.get(BOOKS).status_code == 200


@pytest.mark.django_db
def test_each_caller_has_a_limit_of_its_own_for_reads_and_for_writes(time: Time) -> None:
    eve, bob = caller("eve"), caller("bob")
    for _ in range(3):
        assert eve.get(BOOKS).status_code == 200
    assert eve.get(BOOKS).status_code == 429

    assert bob.get(BOOKS).status_code == 200
    assert [eve.delete(f"{BOOKS}/nothing").status_code for _ in range(3)] == [404, 404, 429]


@pytest.mark.django_db
def test_those_without_a_login_are_counted_by_address(time: Time) -> None:
    assert [APIClient().post(DESK, REMOTE_ADDR="10.0.0.1").status_code for _ in range(3)] == [200, 200, 429]
    assert APIClient().post(DESK, REMOTE_ADDR="10.0.0.2").status_code == 200


@pytest.mark.django_db
def test_nobody_is_limited_where_the_limit_is_nought(time: Time, settings: Settings) -> None:
    settings.API_READS_PER_MINUTE = 0

    assert {caller("eve").get(BOOKS).status_code for _ in range(9)} == {200}


@pytest.fixture
def redis_at(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Says where Redis is."""

    def redis_at(url: str) -> None:
        settings.REDIS_URL = url
        quick_client.cache_clear()

    yield redis_at
    quick_client.cache_clear()


def test_processes_count_together(
    valkey: ValkeyServer, live_redis: redis.Redis, redis_at: Callable[[str], None]
) -> None:
    redis_at(valkey.url)
    one, other = Counter(), Counter()

    assert [one.count("eve", 1), other.count("eve", 1), one.count("eve", 1)] == [1, 2, 3]
    assert [one.count("bob", 1), one.count("eve", 2)] == [1, 1]
    assert {0 < live_redis.ttl(key) <= 120 for key in live_redis.keys("tandem:rate:*")} == {True}


def test_without_redis_each_counts_for_itself_and_asks_again_later(
    valkey: ValkeyServer, live_redis: redis.Redis, redis_at: Callable[[str], None], time: Time
) -> None:
    redis_at("redis://127.0.0.1:1/0")
    counter = Counter()
    assert [counter.count("eve", 1), counter.count("eve", 1)] == [1, 2]

    redis_at(valkey.url)
    assert counter.count("eve", 1) == 3
    time.now += 5
    assert counter.count("eve", 1) == 1
    assert live_redis.keys("tandem:rate:*")
