from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from tests.control.conftest import OPERATOR

SESSION = "/api/v1/session"
RIGHT = {"username": OPERATOR, "password": "correct horse battery"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(operator: User) -> APIClient:
    """A client that CSRF is checked for, as for a browser."""
    return APIClient(enforce_csrf_checks=True)


def log_in(browser: APIClient, credentials: dict[str, str] = RIGHT):
    csrf = browser.get(SESSION).json()["csrf"]
    return browser.post(SESSION, credentials, format="json", headers={"X-CSRFToken": csrf})


def test_a_stranger_gets_a_csrf_token_and_nothing_else(browser: APIClient) -> None:
    answer = browser.get(SESSION)

    assert answer.json()["user"] is None
    assert answer.json()["csrf"]
    assert answer.cookies["csrftoken"].value


def test_login_logout(browser: APIClient) -> None:
    assert browser.get("/api/v1/operations").status_code == 401

    opened = log_in(browser)
    assert opened.status_code == 200
    assert opened.json()["user"] == {
        "username": OPERATOR,
        "kind": "user",
        "role": "admin",
        "grants": {},
        "only": None,
        "local": True,
    }
    assert browser.get(SESSION).json()["user"] == opened.json()["user"]
    assert browser.get("/api/v1/operations").status_code == 200

    closed = browser.delete(SESSION, headers={"X-CSRFToken": opened.json()["csrf"]})
    assert closed.status_code == 204
    assert browser.get(SESSION).json()["user"] is None
    assert browser.get("/api/v1/operations").status_code == 401


def test_the_token_of_the_login_answer_works_for_what_follows(browser: APIClient) -> None:
    csrf = log_in(browser).json()["csrf"]

    made = browser.post("/api/v1/keys", {"name": "ci"}, format="json", headers={"X-CSRFToken": csrf})
    assert made.status_code == 201


@pytest.mark.parametrize("changes", [{"password": "wrong"}, {"username": "nobody"}])
def test_bad_credentials_do_not_say_which_part_was_wrong(browser: APIClient, changes: dict[str, str]) -> None:
    answer = log_in(browser, RIGHT | changes)

    assert answer.status_code == 401
    assert answer.json()["code"] == "bad_credentials"
    assert answer.json()["detail"] == "The user name or the password is wrong."


def test_a_user_who_was_switched_off_cannot_log_in(browser: APIClient, operator: User) -> None:
    User.objects.update(is_active=False)

    assert log_in(browser).json()["code"] == "bad_credentials"


def test_a_login_from_another_site_is_refused(browser: APIClient) -> None:
    answer = browser.post(SESSION, RIGHT, format="json")

    assert answer.status_code == 403
    assert answer.json()["code"] == "csrf_failed"
    assert browser.get(SESSION).json()["user"] is None


def test_a_change_without_the_csrf_token_is_refused(browser: APIClient) -> None:
    log_in(browser)

    answer = browser.post("/api/v1/keys", {"name": "ci"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")
    assert browser.get("/api/v1/keys").json()["items"] == []


def test_a_login_without_a_password_names_the_field(browser: APIClient) -> None:
    answer = log_in(browser, {"username": OPERATOR})

    assert answer.status_code == 400
    assert answer.json()["field"] == "password"
