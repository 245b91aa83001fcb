"""Claims about what one entry holds."""

from __future__ import annotations

import pytest
from django.db import transaction

from controlplane.audit.models import AuditEntry
from controlplane.audit.services import record
from controlplane.core import principal
from controlplane.core.principal import Principal
from inference.contracts.auth import new_management_token, new_serving_key
from inference.contracts.states import PrincipalKind
from tests.control.conftest import Clock


def resized(**fields: object) -> AuditEntry:
    target = {"target_kind": "pool", "target_id": "p1", "target_name": "m/decode"}
    return record(action="pool.resize", **{**target, **fields})


@pytest.mark.django_db
@pytest.mark.postgres
def test_an_entry_says_who_did_what_from_where_and_when(now: Clock) -> None:
    robot = Principal(name="ci", kind=PrincipalKind.TOKEN, address="2001:db8::1", request_id="r-1")
    with principal.acting(robot):
        pk = resized(before={"replicas": 1}, after={"replicas": 2}, reason="more Zürich").pk
    entry = AuditEntry.objects.get(pk=pk)

    assert (entry.actor, entry.actor_kind, entry.address, entry.request_id) == ("ci", "token", "2001:db8::1", "r-1")
    assert (entry.at, entry.action, entry.target_kind, entry.target_name) == (now(), "pool.resize", "pool", "m/decode")
    assert (entry.before, entry.after, entry.reason) == ({"replicas": 1}, {"replicas": 2}, "more Zürich")


@pytest.mark.django_db
def test_what_tandem_does_by_itself_is_told_as_its_own() -> None:
    entry = resized()

    assert (entry.actor, entry.actor_kind, entry.address) == ("tandem", "system", "")
    assert (entry.before, entry.after) == (None, None)


@pytest.mark.django_db
def test_secrets_are_not_written_down() -> None:
    key, token = new_serving_key(), new_management_token()
    entry = resized(
        before={"password": "hunter2", "kv_tokens": 4096},
        after={"key": key, "notes": [f"use {token} for it"], "key_id": "k1", "url": "redis://:pw@host:1/0"},
        reason=f"the key {key} leaked",
    )

    assert entry.before == {"password": "***", "kv_tokens": 4096}
    assert entry.after == {
        "key": "***",
        "notes": ["use tdm-*** for it"],
        "key_id": "k1",
        "url": "redis://:***@host:1/0",
    }
    assert entry.reason == "the key sk-tandem-*** leaked"


@pytest.mark.django_db
def test_a_name_that_is_too_long_is_shortened_instead_of_failing_the_write() -> None:
    assert len(resized(target_name="n" * 300).target_name) == 200


@pytest.mark.django_db(transaction=True)
def test_an_entry_shares_the_fate_of_its_write() -> None:
    with transaction.atomic():
        resized()
        transaction.set_rollback(True)

    assert not AuditEntry.objects.exists()
    with pytest.raises(RuntimeError, match="outside of the transaction"):
        resized()
