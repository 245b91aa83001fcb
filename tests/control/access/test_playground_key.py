from __future__ import annotations

import pytest
from pytest_django import Settings

from controlplane.access import selectors, services
from controlplane.access.models import ServingKey
from inference.contracts.auth import key_digest
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_the_playground_key_is_derived_and_never_stored() -> None:
    key = services.playground_key()

    assert services.playground_key() == key
    row = ServingKey.objects.get()
    assert (row.internal, row.digest) == (True, key_digest(key))
    assert key not in str(vars(row))
    assert list(selectors.key_list()) == []


def test_a_new_cluster_secret_retires_the_old_playground_key(settings: Settings) -> None:
    old = services.playground_key()
    settings.CLUSTER_SECRET = "rotated"
    new = services.playground_key()

    assert selectors.key_active(old) is None
    assert selectors.key_active(new) is not None


def test_going_back_to_the_first_secret_brings_its_key_back(settings: Settings) -> None:
    first_secret, first = settings.CLUSTER_SECRET, services.playground_key()
    settings.CLUSTER_SECRET = "rotated"
    second = services.playground_key()
    settings.CLUSTER_SECRET = first_secret

    assert services.playground_key() == first
    assert selectors.key_active(first) is not None
    assert selectors.key_active(second) is None


@pytest.mark.django_db(transaction=True)
def test_first_uses_at_once_agree_on_one_row() -> None:
    keys = at_once(*[services.playground_key] * 4)

    assert len(set(keys)) == 1, keys
    assert ServingKey.objects.filter(revoked_at__isnull=True).count() == 1
