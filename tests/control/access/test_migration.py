"""A database of the previous release keeps its keys and people (F39)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane.access.models import ServingKey
from controlplane.access.principals import principal_of_user
from tests.control.access.people import ADMIN, VIEWER

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

NEWEST = [("access", "0005_tokens_per_minute")]


def migrate_to(targets: list[tuple[str, str]]) -> MigrationExecutor:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection)


def test_superusers_become_admins_others_viewers_and_keys_stay_as_they_were() -> None:
    old = migrate_to([("access", "0001_initial")]).loader.project_state([("access", "0001_initial")]).apps
    try:
        User.objects.create_superuser("root")
        User.objects.create_user("bob")
        at = datetime(2026, 3, 1, tzinfo=UTC)
        old.get_model("access", "ServingKey").objects.create(
            name="ci", prefix="sk-tandem-abc123", digest="d" * 64, created_by="root", created_at=at
        )
    finally:
        migrate_to(NEWEST)

    roles = {user.username: principal_of_user(user).role for user in User.objects.all()}
    assert roles == {"root": ADMIN, "bob": VIEWER}
    key = ServingKey.objects.get()
    assert (key.name, key.digest, key.created_at) == ("ci", "d" * 64, at)
    assert (key.priority_class, key.tokens_per_minute) == ("standard", None)
    assert (key.scope, key.requests_per_minute, key.max_concurrent, key.last_used_at) == ([], None, None, None)


def test_the_migration_can_be_repeated() -> None:
    User.objects.create_user("bob")
    migrate_to([("access", "0002_people_tokens_limits")])
    migrate_to(NEWEST)

    assert principal_of_user(User.objects.get()).role is VIEWER
