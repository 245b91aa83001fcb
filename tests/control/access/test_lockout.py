"""Guessing passwords is slow."""

from __future__ import annotations

import pytest
from django.db import close_old_connections
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.access import lockout
from controlplane.access.models import LoginFailure
from controlplane.audit.models import AuditEntry
from controlplane.core.errors import TooMany
from controlplane.core.redis import sync_client
from inference.contracts.states import Subject
from tests.control.access.people import ADMIN, OPERATOR, PASSWORD, logged_in, person
from tests.control.conftest import Clock
from tests.control.races import at_once

SESSION = "/api/v1/session"

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def few(settings: Settings) -> None:
    settings.LOGIN_WINDOW_S = 600
    settings.LOGIN_FAILURES_PER_NAME = 3
    settings.LOGIN_FAILURES_PER_ADDRESS = 6


def log_in(name: str = "ada", password: str = PASSWORD, address: str = "192.0.2.1"):
    return APIClient(REMOTE_ADDR=address).post(SESSION, {"username": name, "password": password}, format="json")


def guess(times: int, name: str = "ada", address: str = "192.0.2.1") -> None:
    for _ in range(times):
        assert log_in(name, "a wrong one", address).status_code == 401


def test_after_too_many_failures_even_the_right_password_waits(now: Clock) -> None:
    person("ada")
    guess(1)
    now.advance(60)
    guess(2)
    now.advance(40)

    refused = log_in()
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_logins")
    assert refused["Retry-After"] == "500"
    now.advance(499)
    assert log_in().status_code == 429
    now.advance(1)
    assert log_in().status_code == 200


def test_it_holds_for_the_name_from_wherever_and_however_it_is_spelt(now: Clock) -> None:
    person("ada")
    for number, spelling in enumerate(("ada", "ADA", "Ada")):
        guess(1, spelling, f"192.0.2.{number}")

    assert log_in(address="198.51.100.7").status_code == 429


def test_it_holds_for_names_that_nobody_has(now: Clock) -> None:
    """Or the difference would tell who has an account."""
    guess(3, "nobody")

    assert log_in("nobody").status_code == 429


def test_it_holds_for_an_address_whatever_the_name(now: Clock) -> None:
    person("ada")
    for number in range(6):
        guess(1, f"somebody-{number}")

    assert log_in().status_code == 429
    assert log_in(address="198.51.100.7").status_code == 200


def test_a_login_forgets_the_failures_of_the_name(now: Clock) -> None:
    person("ada")
    for _ in range(2):
        guess(2)
        assert log_in().status_code == 200


def test_a_login_does_not_forget_what_its_address_tried_on_others(now: Clock) -> None:
    person("ada")
    for number in range(5):
        guess(1, f"somebody-{number}")
    assert log_in().status_code == 200
    guess(1, "somebody-5")

    assert log_in().status_code == 429


def test_waiting_is_not_made_longer_by_who_goes_on(now: Clock) -> None:
    person("ada")
    guess(3)
    for _ in range(50):
        assert log_in(password="a wrong one").status_code == 429
        now.advance(12)

    assert LoginFailure.objects.count() == 3
    assert log_in().status_code == 200


@pytest.mark.django_db(transaction=True)
def test_attempts_side_by_side_do_not_overtake_the_count() -> None:
    def attempt(number: int) -> bool:
        try:
            lockout.attempt_begin(name="ada", address=f"192.0.2.{number}")
            return True
        except TooMany:
            return False
        finally:
            close_old_connections()

    looked_at = at_once(*(lambda number=number: attempt(number) for number in range(8)))
    assert 1 <= sum(looked_at) <= 4
    assert not any(at_once(*(lambda number=number: attempt(number) for number in range(2))))


def test_it_works_with_redis_away(now: Clock) -> None:
    sync_client.cache_clear()
    person("ada")
    guess(3)

    assert log_in().status_code == 429


def test_admins_see_who_is_locked_out_and_unlock_them(now: Clock) -> None:
    root = logged_in(person("root", ADMIN))
    person("ada")
    guess(3)
    [shown] = root.get("/api/v1/lockouts").json()["items"]
    assert shown == {"subject": "name", "value": "ada", "failures": 3, "until": "2026-03-01T12:10:00.000Z"}

    answer = root.post("/api/v1/lockouts/unlock", {"subject": "name", "value": "Ada"}, format="json")
    assert answer.json() == {"failures": 3}
    assert root.get("/api/v1/lockouts").json()["items"] == []
    assert log_in().status_code == 200
    entry = AuditEntry.objects.get(action="login.unlock")
    assert (entry.actor, entry.target_name) == ("root", "ada")


def test_operators_neither_see_nor_unlock(now: Clock) -> None:
    client = logged_in(person("bob", OPERATOR))

    assert client.get("/api/v1/lockouts").status_code == 403
    unlocked = client.post("/api/v1/lockouts/unlock", {"subject": "name", "value": "ada"}, format="json")
    assert unlocked.status_code == 403


def test_old_failures_are_forgotten(now: Clock) -> None:
    guess(2)
    now.advance(600)
    guess(1)
    lockout.failures_forget(now=now())

    assert LoginFailure.objects.count() == 1


def test_very_long_names_are_counted_too(now: Clock) -> None:
    for _ in range(3):
        log_in("ß" * 5000, "a wrong one")

    assert log_in("ß" * 5000).status_code == 429
    assert lockout.unlock(subject=Subject.NAME, value="ß" * 5000) == 3
