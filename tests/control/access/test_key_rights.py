"""What a serving key may do, and its rotation: as the API shows it, and as routers get it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.test import TestCase
from rest_framework.test import APIClient

from controlplane.access import selectors, services
from controlplane.access.models import ServingKey
from controlplane.access.services import KeyRights
from controlplane.audit.models import AuditEntry
from inference.contracts.auth import key_digest
from inference.contracts.states import PriorityClass
from tests.control.conftest import Clock

KEYS = "/api/v1/keys"
LIMITS = {
    "models": ["chat", "search"],
    "priority_class": "high",
    "requests_per_minute": 60,
    "tokens_per_minute": 9000,
    "max_concurrent": 4,
}

pytestmark = pytest.mark.django_db


def make(api: APIClient, **wanted: object) -> dict[str, object]:
    answer = api.post(KEYS, {"name": "ci", **wanted}, format="json")
    assert answer.status_code == 201, answer.json()
    return answer.json()


def test_scope_and_limits_reach_the_routers(api: APIClient, now: Clock) -> None:
    made = make(api, **LIMITS)

    assert {name: made[name] for name in LIMITS} == LIMITS
    [entry] = selectors.key_entries(now=now())
    assert (entry.models, entry.requests_per_minute, entry.max_concurrent) == (("chat", "search"), 60, 4)
    assert (entry.priority_class, entry.tokens_per_minute) == (PriorityClass.HIGH, 9000)


def test_a_key_without_limits_has_none(api: APIClient, now: Clock) -> None:
    made = make(api)

    assert (made["priority_class"], made["tokens_per_minute"]) == ("standard", None)
    assert (made["models"], made["requests_per_minute"], made["max_concurrent"]) == ([], None, None)
    [entry] = selectors.key_entries(now=now())
    assert (entry.models, entry.requests_per_minute, entry.max_concurrent) == ((), None, None)


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"models": [" "]}, "models"),
        ({"models": ["x" * 101]}, "models"),
        ({"models": [f"m{number}" for number in range(201)]}, "models"),
        ({"priority_class": "urgent"}, "priority_class"),
        ({"priority_class": None}, "priority_class"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"requests_per_minute": 10**9}, "requests_per_minute"),
        ({"tokens_per_minute": 0}, "tokens_per_minute"),
        ({"tokens_per_minute": 10**10}, "tokens_per_minute"),
        ({"max_concurrent": -1}, "max_concurrent"),
        ({"max_concurrent": 1.5}, "max_concurrent"),
    ],
)
def test_a_limit_that_cannot_be_names_its_field(api: APIClient, wanted: dict[str, object], field: str) -> None:
    made = make(api)
    for answer in (
        api.post(KEYS, {"name": "x", **wanted}, format="json"),
        api.patch(f"{KEYS}/{made['id']}", wanted, format="json"),
    ):
        assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert ServingKey.objects.count() == 1


def test_a_change_leaves_alone_what_it_does_not_name(api: APIClient, now: Clock) -> None:
    address = f"{KEYS}/{make(api, **LIMITS)['id']}"

    assert api.patch(address, {"name": "renamed"}, format="json").json()["requests_per_minute"] == 60
    changed = api.patch(address, {"requests_per_minute": None, "models": ["chat"]}, format="json").json()
    assert (changed["priority_class"], changed["tokens_per_minute"]) == ("high", 9000)
    assert (changed["name"], changed["requests_per_minute"], changed["max_concurrent"]) == ("renamed", None, 4)
    assert api.get(address).json() == changed
    [entry] = selectors.key_entries(now=now())
    assert (entry.models, entry.requests_per_minute) == (("chat",), None)


def test_a_change_is_published_and_audited_and_no_change_is_neither(api: APIClient) -> None:
    address = f"{KEYS}/{make(api)['id']}"
    with TestCase.captureOnCommitCallbacks() as sent:
        api.patch(address, {"max_concurrent": 3}, format="json")
    assert len(sent) == 1
    with TestCase.captureOnCommitCallbacks() as sent:
        api.patch(address, {"max_concurrent": 3}, format="json")
    assert not sent

    entry = AuditEntry.objects.get(action="key.change")
    assert (entry.before["max_concurrent"], entry.after["max_concurrent"]) == (None, 3)


def test_a_changed_class_is_published(api: APIClient, now: Clock) -> None:
    address = f"{KEYS}/{make(api)['id']}"
    assert api.patch(address, {"priority_class": "low"}, format="json").json()["priority_class"] == "low"
    [entry] = selectors.key_entries(now=now())
    assert entry.priority_class is PriorityClass.LOW


def test_a_change_names_the_version_it_saw(api: APIClient) -> None:
    address = f"{KEYS}/{make(api)['id']}"
    seen = api.get(address)["ETag"]
    assert api.patch(address, {"max_concurrent": 3}, format="json", headers={"If-Match": seen}).status_code == 200
    assert api.patch(address, {"max_concurrent": 9}, format="json", headers={"If-Match": seen}).status_code == 412

    assert ServingKey.objects.get().max_concurrent == 3


def test_a_trial_run_makes_no_key(api: APIClient) -> None:
    answer = api.post(f"{KEYS}?dry_run=true", {"name": "ci"}, format="json")

    assert answer.status_code == 201
    assert answer["Dry-Run"] == "true"
    assert answer.json()["key"] == "***"
    assert not ServingKey.objects.exists()


def test_a_rotated_key_is_two_entries_of_one_key_until_the_grace_ends(api: APIClient, now: Clock) -> None:
    first = make(api, requests_per_minute=5)
    second = api.post(f"{KEYS}/{first['id']}/rotate", {"grace_s": 60}, format="json").json()

    assert second["id"] == first["id"]
    assert str(second["key"]).startswith(second["prefix"])
    entries = {entry.digest: entry for entry in selectors.key_entries(now=now())}
    old, new = entries[key_digest(str(first["key"]))], entries[key_digest(second["key"])]
    assert old.key_id == new.key_id == first["id"]
    assert (old.requests_per_minute, new.requests_per_minute) == (5, 5)
    assert (old.expires_at, new.expires_at) == (now().timestamp() + 60, None)
    now.advance(60)
    assert [entry.digest for entry in selectors.key_entries(now=now())] == [new.digest]


def test_the_grace_ends_with_the_key(api: APIClient, now: Clock) -> None:
    first = make(api, expires_in_days=1)
    now.advance(86_400 - 10)
    api.post(f"{KEYS}/{first['id']}/rotate", {"grace_s": 60}, format="json")

    assert {entry.expires_at for entry in selectors.key_entries(now=now())} == {now().timestamp() + 10}


def test_a_revoke_ends_both_secrets(api: APIClient, now: Clock) -> None:
    made = make(api)
    api.post(f"{KEYS}/{made['id']}/rotate", {}, format="json")
    api.delete(f"{KEYS}/{made['id']}")

    assert selectors.key_entries(now=now()) == ()
    answer = api.post(f"{KEYS}/{made['id']}/rotate", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "ended")


def test_unknown_and_internal_keys_are_not_found(api: APIClient) -> None:
    inside = services.key_create(name="inside", created_by="tandem", internal=True, rights=KeyRights(["chat"]))
    for key_id in (uuid4(), inside.row.pk):
        assert api.get(f"{KEYS}/{key_id}").status_code == 404
        assert api.patch(f"{KEYS}/{key_id}", {"name": "x"}, format="json").status_code == 404
        assert api.post(f"{KEYS}/{key_id}/rotate", {}, format="json").status_code == 404
