from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from rest_framework.test import APIClient

from controlplane.access import selectors, services
from controlplane.access.models import ServingKey
from controlplane.core.errors import Invalid, NotFound
from inference.contracts.auth import key_digest
from tests.control.conftest import OPERATOR, Clock

KEYS = "/api/v1/keys"

pytestmark = pytest.mark.django_db


def test_a_key_is_shown_once_and_stored_as_a_digest_only(api: APIClient) -> None:
    made = api.post(KEYS, {"name": "ci"}, format="json")
    assert made.status_code == 201
    key = made.json()["key"]

    assert key.startswith("sk-tandem-")
    row = ServingKey.objects.get()
    assert row.digest == key_digest(key)
    assert key.startswith(row.prefix)
    assert key not in str(vars(row))
    [listed] = api.get(KEYS).json()["items"]
    assert listed == {name: value for name, value in made.json().items() if name != "key"}
    assert (listed["name"], listed["created_by"], listed["revoked_at"]) == ("ci", OPERATOR, None)


def test_a_key_can_be_given_an_end(api: APIClient, now: Clock) -> None:
    made = api.post(KEYS, {"name": "ci", "expires_in_days": 7}, format="json").json()

    assert made["expires_at"] == "2026-03-08T12:00:00.000Z"


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "   "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "ci", "expires_in_days": 0}, "expires_in_days"),
        ({"name": "ci", "expires_in_days": 10**9}, "expires_in_days"),
        ({"name": "ci", "expires_in_days": "7"}, "expires_in_days"),
        ({}, "name"),
        ({"name": "ci", "scope": "all"}, "scope"),
    ],
)
def test_a_refused_key_names_the_field_and_leaves_nothing(
    api: APIClient, wanted: dict[str, object], field: str
) -> None:
    answer = api.post(KEYS, wanted, format="json")

    assert answer.status_code == 400
    assert answer.json()["field"] == field
    assert not ServingKey.objects.exists()


def test_a_revoked_key_stays_in_the_list_as_revoked(api: APIClient, now: Clock) -> None:
    made = api.post(KEYS, {"name": "ci"}, format="json").json()
    now.advance(60)

    assert api.delete(f"{KEYS}/{made['id']}").status_code == 204
    [listed] = api.get(KEYS).json()["items"]
    assert listed["revoked_at"] == "2026-03-01T12:01:00.000Z"
    assert selectors.key_active(made["key"]) is None


def test_revoking_twice_keeps_the_first_time(api: APIClient, now: Clock) -> None:
    made = api.post(KEYS, {"name": "ci"}, format="json").json()
    api.delete(f"{KEYS}/{made['id']}")
    now.advance(60)

    assert api.delete(f"{KEYS}/{made['id']}").status_code == 204
    assert api.get(KEYS).json()["items"][0]["revoked_at"] == "2026-03-01T12:00:00.000Z"


def test_an_unknown_key_is_not_found(api: APIClient) -> None:
    assert api.delete(f"{KEYS}/{uuid4()}").json()["code"] == "not_found"


def test_an_internal_key_is_neither_listed_nor_revocable(api: APIClient) -> None:
    issued = services.key_create(name="inside", created_by="tandem", internal=True)

    assert api.get(KEYS).json()["items"] == []
    with pytest.raises(NotFound):
        services.key_revoke(key_id=UUID(str(issued.row.pk)))
    assert selectors.key_active(issued.raw) is not None


def test_refusals_are_raised_before_anything_is_written() -> None:
    with pytest.raises(Invalid):
        services.key_create(name="", created_by=OPERATOR)
