"""People, as admins manage them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import close_old_connections
from rest_framework.test import APIClient

from controlplane.access import users
from controlplane.access.models import Account, Grant, ManagementToken
from controlplane.audit.models import AuditEntry
from controlplane.core.errors import Conflict
from tests.control.access.people import ADMIN, OPERATOR, PASSWORD, VIEWER, logged_in, person, token, with_token
from tests.control.conftest import Clock
from tests.control.races import at_once

USERS = "/api/v1/users"

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> APIClient:
    return logged_in(person("root", ADMIN))


def test_a_person_is_made_with_a_first_password_a_role_and_grants(root: APIClient, now: Clock) -> None:
    made = root.post(
        USERS,
        {"username": "bob", "password": PASSWORD, "role": "viewer", "grants": {"chat": "operator"}},
        format="json",
    )

    assert made.status_code == 201
    shown = made.json()
    assert {**shown, "created_at": ""} == {
        "username": "bob",
        "role": "viewer",
        "grants": {"chat": "operator"},
        "active": True,
        "local": True,
        "oidc": False,
        "created_at": "",
        "last_login_at": None,
    }
    assert root.get(f"{USERS}/bob").json() == shown
    assert [user["username"] for user in root.get(USERS).json()["items"]] == ["bob", "root"]
    assert PASSWORD not in made.content.decode()
    assert User.objects.get(username="bob").check_password(PASSWORD)


def test_the_role_is_what_djangos_own_admin_site_goes_by(root: APIClient) -> None:
    person("bob")
    root.patch(f"{USERS}/bob", {"role": "admin"}, format="json")
    bob = User.objects.get(username="bob")
    assert (bob.is_staff, bob.is_superuser) == (True, True)

    root.patch(f"{USERS}/bob", {"role": "operator"}, format="json")
    bob.refresh_from_db()
    assert (bob.is_staff, bob.is_superuser) == (False, False)


@pytest.mark.parametrize(
    ("wanted", "status", "field"),
    [
        ({"username": "root", "password": PASSWORD}, 409, "username"),
        ({"username": "two words", "password": PASSWORD}, 400, "username"),
        ({"username": "bob", "password": "short"}, 400, "password"),
        ({"username": "bob", "password": "correct-bob-correct", "role": "king"}, 400, "role"),
        ({"username": "bob", "password": PASSWORD, "grants": {"chat": "king"}}, 400, "grants"),
        ({"username": "bob", "password": PASSWORD, "grants": {"": "viewer"}}, 400, "grants"),
        ({"username": "bob"}, 400, "password"),
    ],
)
def test_a_person_that_cannot_be_is_refused(
    root: APIClient, wanted: dict[str, object], status: int, field: str
) -> None:
    answer = root.post(USERS, wanted, format="json")

    assert answer.status_code == status
    assert answer.json()["field"].split(".")[0].rstrip("[").startswith(field)
    assert User.objects.count() == 1


def test_the_only_admin_stays_one(root: APIClient) -> None:
    for change in ({"role": "operator"}, {"active": False}):
        answer = root.patch(f"{USERS}/root", change, format="json")
        assert (answer.status_code, answer.json()["code"]) == (409, "last_admin")
    assert root.delete(f"{USERS}/root").json()["code"] == "last_admin"

    users.user_change(username=person("bob", ADMIN).username, active=False)
    assert root.patch(f"{USERS}/root", {"role": "viewer"}, format="json").status_code == 409
    users.user_change(username="bob", active=True)
    assert root.patch(f"{USERS}/root", {"role": "viewer"}, format="json").status_code == 200


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_two_admins_that_remove_each_other_one_is_left() -> None:
    person("ada", ADMIN)
    person("bob", ADMIN)

    def demote(name: str) -> bool:
        try:
            users.user_change(username=name, role=VIEWER)
            return True
        except Conflict:
            return False
        finally:
            close_old_connections()

    assert sorted(at_once(lambda: demote("ada"), lambda: demote("bob"))) == [False, True]
    assert User.objects.filter(is_superuser=True).count() == 1


def test_who_is_switched_off_is_out_at_once_and_stays_out_of_old_sessions(root: APIClient) -> None:
    bob = person("bob", OPERATOR)
    browser, program = logged_in(bob), with_token(token(OPERATOR, bob).raw)
    assert browser.get("/api/v1/keys").status_code == program.get("/api/v1/keys").status_code == 200

    root.patch(f"{USERS}/bob", {"active": False}, format="json")
    assert browser.get("/api/v1/keys").status_code == 401
    assert program.get("/api/v1/keys").status_code == 401

    root.patch(f"{USERS}/bob", {"active": True}, format="json")
    assert browser.get("/api/v1/keys").status_code == 401
    assert program.get("/api/v1/keys").status_code == 200


def test_who_is_deleted_leaves_only_the_audit(root: APIClient) -> None:
    bob = person("bob", OPERATOR, {"chat": ADMIN})
    browser = logged_in(bob)
    token(OPERATOR, bob)

    assert root.delete(f"{USERS}/bob").status_code == 204
    assert browser.get("/api/v1/keys").status_code == 401
    assert not Grant.objects.exists()
    assert not ManagementToken.objects.exists()
    assert not Account.objects.exclude(user__username="root").exists()
    last = AuditEntry.objects.filter(action="user.delete").get()
    assert (last.actor, last.target_name, last.before["role"]) == ("root", "bob", "operator")


def test_a_change_is_in_the_audit_and_no_change_is_not(root: APIClient) -> None:
    person("bob")
    AuditEntry.objects.all()
    root.patch(f"{USERS}/bob", {"grants": {"chat": "operator"}}, format="json")
    root.patch(f"{USERS}/bob", {"grants": {"chat": "operator"}}, format="json")

    entry = AuditEntry.objects.filter(action="user.change").get()
    assert (entry.actor, entry.target_name) == ("root", "bob")
    assert (entry.before["grants"], entry.after["grants"]) == ({}, {"chat": "operator"})


def test_only_admins_see_and_change_people(root: APIClient) -> None:
    for role in (VIEWER, OPERATOR):
        client = logged_in(person(f"a-{role}", role))
        program = with_token(token(role, name=f"t-{role}").raw)
        for who in (client, program):
            assert who.get(USERS).status_code == 403
            assert who.post(USERS, {"username": "x", "password": PASSWORD}, format="json").status_code == 403
            assert who.patch(f"{USERS}/root", {"active": False}, format="json").status_code == 403
            assert who.put(f"{USERS}/root/password", {"password": PASSWORD}, format="json").status_code == 403
            assert who.delete(f"{USERS}/root").status_code == 403


def test_an_admins_token_for_all_deployments_manages_people_too(db: None) -> None:
    person("root", ADMIN)
    assert with_token(token(ADMIN).raw).get(USERS).status_code == 200
    assert with_token(token(ADMIN, name="narrow", only=["chat"]).raw).get(USERS).status_code == 403


def test_unknown_people_are_not_found(root: APIClient) -> None:
    for name in ("nobody", "%00", "x" * 400):
        assert root.get(f"{USERS}/{name}").status_code == 404


def test_the_list_costs_the_same_for_many(root: APIClient, django_assert_max_num_queries) -> None:
    for number in range(20):
        person(f"p{number}", OPERATOR, {"chat": ADMIN, "search": ADMIN})
    with django_assert_max_num_queries(8):
        assert len(root.get(USERS).json()["items"]) == 21
