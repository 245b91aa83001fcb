"""What people and tokens may do."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from controlplane.access import users
from controlplane.access.principals import principal_of_token, principal_of_user
from tests.control.access.people import ADMIN, OPERATOR, VIEWER, person, token

pytestmark = pytest.mark.django_db


def test_a_role_holds_everywhere_and_a_grant_for_one_deployment() -> None:
    by = principal_of_user(person("ada", VIEWER, {"chat": OPERATOR}))

    assert by.may(VIEWER)
    assert not by.may(OPERATOR)
    assert by.may(OPERATOR, "chat")
    assert not by.may(ADMIN, "chat")
    assert not by.may(OPERATOR, "search")


def test_a_grant_never_takes_away() -> None:
    assert principal_of_user(person("ada", OPERATOR, {"chat": VIEWER})).may(OPERATOR, "chat")


def test_whom_djangos_own_commands_made_is_an_admin_or_nobody_much() -> None:
    assert principal_of_user(User.objects.create_superuser("root")).role is ADMIN
    assert principal_of_user(User.objects.create_user("bob")).role is VIEWER


def test_a_token_may_what_its_owner_may_and_no_more_than_it_says() -> None:
    owner = person("ada", OPERATOR, {"chat": ADMIN})
    assert principal_of_token(token(ADMIN, owner, "all").row).role is OPERATOR
    reader = principal_of_token(token(VIEWER, owner, "reader").row)
    assert (reader.role, reader.may(OPERATOR, "chat")) == (VIEWER, False)
    assert principal_of_token(token(ADMIN, owner, "chat").row).may(ADMIN, "chat")


def test_a_token_of_somebody_who_became_less_is_less(now: object) -> None:
    person("root", ADMIN)
    owner = person("ada", ADMIN)
    issued = token(ADMIN, owner)
    users.user_change(username="ada", role=VIEWER)
    issued.row.refresh_from_db()

    assert principal_of_token(issued.row).role is VIEWER


def test_a_token_for_some_deployments_only_looks_at_everything_else() -> None:
    by = principal_of_token(token(OPERATOR, only=["chat"]).row)

    assert by.may(OPERATOR, "chat")
    assert not by.may(VIEWER, "search")
    assert by.may(VIEWER)
    assert not by.may(OPERATOR)


def test_no_person_has_the_name_of_a_token() -> None:
    by = principal_of_token(token(name="ada").row)

    assert by.name == "token ada"
    with pytest.raises(Exception, match="valid username"):
        person("token ada")
