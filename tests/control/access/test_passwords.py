"""What passwords must be, and what follows from a new one."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.access.models import LoginFailure
from controlplane.access.passwords import require_good_password
from controlplane.core.errors import Invalid
from tests.control.access.people import ADMIN, OPERATOR, PASSWORD, logged_in, person, token, with_token

OWN = "/api/v1/session/password"
NEW = "staple quite another"

pytestmark = pytest.mark.django_db


def change(client: APIClient, current: str = PASSWORD, new: str = NEW):
    return client.put(OWN, {"current": current, "new": new}, format="json")


@pytest.mark.parametrize("weak", ["short", "password123456", "ada-ada-ada-1", "20261130123456"])
def test_weak_passwords_are_refused_with_the_reason(weak: str) -> None:
    with pytest.raises(Invalid) as caught:
        require_good_password(weak, User(username="ada-ada-ada"))

    assert (caught.value.code, caught.value.field) == ("weak_password", "password")


def test_kinds_of_characters_can_be_asked_for(settings: Settings) -> None:
    rule = {"NAME": "controlplane.access.passwords.KindsValidator", "OPTIONS": {"kinds": 3}}
    settings.AUTH_PASSWORD_VALIDATORS = [rule]
    with pytest.raises(Invalid, match="at least 3 of these"):
        require_good_password("onlysmallletters", User())
    require_good_password("Small-and-more", User())


def test_a_new_password_ends_all_other_sessions_and_keeps_this_one() -> None:
    ada = person("ada", OPERATOR)
    here, there = logged_in(ada), logged_in(ada)

    assert change(here).status_code == 200
    assert here.get("/api/v1/keys").status_code == 200
    assert there.get("/api/v1/keys").status_code == 401
    assert User.objects.get().check_password(NEW)


def test_a_viewer_changes_their_own_password_too() -> None:
    assert change(logged_in(person("ada"))).status_code == 200


def test_the_current_password_is_asked_for_and_guessing_it_is_locked_out(settings: Settings) -> None:
    settings.LOGIN_FAILURES_PER_NAME = 3
    client = logged_in(person("ada"))
    for _ in range(3):
        answer = change(client, current="wrong")
        assert (answer.status_code, answer.json()["field"]) == (400, "current")
    assert LoginFailure.objects.count() == 3

    answer = change(client)
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) > 0
    assert User.objects.get().check_password(PASSWORD)


def test_a_weak_new_password_changes_nothing() -> None:
    answer = change(logged_in(person("ada")), new="short")

    assert (answer.status_code, answer.json()["field"]) == (400, "new")
    assert User.objects.get().check_password(PASSWORD)
    assert LoginFailure.objects.count() == 0


def test_a_token_has_no_password() -> None:
    answer = change(with_token(token(ADMIN, person("ada", ADMIN)).raw))

    assert (answer.status_code, answer.json()["code"]) == (403, "needs_a_person")


def test_a_reset_logs_the_person_out_everywhere() -> None:
    root, bob = logged_in(person("root", ADMIN)), person("bob", OPERATOR)
    browser = logged_in(bob)

    answer = root.put("/api/v1/users/bob/password", {"password": NEW}, format="json")
    assert answer.status_code == 204
    assert browser.get("/api/v1/keys").status_code == 401
    bob.refresh_from_db()
    assert bob.check_password(NEW)


def test_who_comes_through_the_identity_provider_has_none_to_change() -> None:
    ada = person("ada")
    ada.set_unusable_password()
    ada.save()

    answer = change(logged_in(ada))
    assert (answer.status_code, answer.json()["code"]) == (409, "no_password")


def test_no_password_reaches_a_log_or_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    from controlplane.audit.models import AuditEntry

    root = logged_in(person("root", ADMIN))
    root.post("/api/v1/users", {"username": "bob", "password": NEW}, format="json")
    root.put("/api/v1/users/bob/password", {"password": PASSWORD}, format="json")
    root.post("/api/v1/session", {"username": "bob", "password": "a wrong secret"}, format="json")

    written = caplog.text + str(list(AuditEntry.objects.values()))
    assert "user.reset_password" in written
    for secret in (NEW, PASSWORD, "a wrong secret"):
        assert secret not in written
