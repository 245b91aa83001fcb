"""Claims about the pools tables: rows of the previous release are kept, forwards and back (F39)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane.core import clock

OLD = [("pools", "0001_initial")]
NEW = [("pools", "0004_revision_of_every_worker")]


def migrate(to: list[tuple[str, str]]) -> Apps:
    executor = MigrationExecutor(connection)
    executor.migrate(to)
    others = [leaf for leaf in executor.loader.graph.leaf_nodes() if leaf[0] in ("catalog", "fleet")]
    return executor.loader.project_state([*to, *others]).apps


@pytest.fixture
def previous_release(transactional_db: None) -> Iterator[Apps]:
    """The pools tables as the previous release left them; afterwards as they are now."""
    yield migrate(OLD)
    call_command("migrate", verbosity=0)


def fill(apps: Apps) -> Any:
    """A deployment with a worker that serves and one that is half started."""
    now = clock.now()
    model = apps.get_model("catalog", "Model").objects.create(name="tiny", path="/models/tiny", created_at=now)
    deployment = apps.get_model("pools", "Deployment").objects.create(
        name="m", model=model, settings={"kv_tokens": 4096}, created_at=now
    )
    node_id = uuid4()
    apps.get_model("fleet", "Node").objects.create(
        id=node_id, name="a", hostname="a", address="10.0.0.1", joined_at=now
    )
    pools, workers = (apps.get_model("pools", name).objects for name in ("Pool", "Worker"))
    for role, more in (("prefill", {"phase": "assigned"}), ("decode", {"phase": "ready", "http_port": 9000})):
        pool = pools.create(deployment=deployment, role=role, replicas=1)
        workers.create(name=f"{role}-1", pool=pool, node_id=node_id, created_at=now, phase_since=now, **more)
    return deployment


@pytest.mark.postgres
def test_model_and_settings_become_the_first_revision_of_every_worker(previous_release: Apps) -> None:
    fill(previous_release)
    apps = migrate(NEW)

    deployment = apps.get_model("pools", "Deployment").objects.get()
    revision = apps.get_model("pools", "Revision").objects.get()
    workers = {each.name: each for each in apps.get_model("pools", "Worker").objects.all()}
    assert (deployment.stable, deployment.previous) == (1, None)
    assert (revision.deployment_id, revision.number, revision.model.name) == (deployment.pk, 1, "tiny")
    assert revision.settings == {"kv_tokens": 4096}
    assert {each.revision_id for each in workers.values()} == {revision.pk}
    assert workers["decode-1"].observed_role == "decode", "it goes on being listed for routers"
    assert workers["prefill-1"].observed_role == ""


@pytest.mark.postgres
def test_a_migration_that_was_killed_can_be_repeated(previous_release: Apps) -> None:
    fill(previous_release)
    migrate([("pools", "0003_first_revisions")])
    migrate([("pools", "0002_revisions")])
    apps = migrate(NEW)

    assert apps.get_model("pools", "Revision").objects.count() == 1


@pytest.mark.postgres
def test_a_downgrade_gives_the_previous_release_what_serves(previous_release: Apps) -> None:
    fill(previous_release)
    migrate(NEW)
    apps = migrate(OLD)

    deployment = apps.get_model("pools", "Deployment").objects.get()
    assert (deployment.model.name, deployment.settings) == ("tiny", {"kv_tokens": 4096})
    assert apps.get_model("pools", "Worker").objects.count() == 2
