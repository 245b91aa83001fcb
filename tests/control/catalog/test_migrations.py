from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from controlplane.catalog.models import Model

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]

BEFORE = [("catalog", "0001_initial")]


@pytest.fixture
def before() -> Iterator[MigrationExecutor]:
    """The database of the previous release, as far as the catalogue goes; whole again afterwards."""
    executor = MigrationExecutor(connection)
    leaves = executor.loader.graph.leaf_nodes()
    executor.migrate(BEFORE)
    yield executor
    executor = MigrationExecutor(connection)
    executor.migrate(leaves)


def test_models_of_the_previous_release_are_kept(before: MigrationExecutor) -> None:
    old = before.loader.project_state(BEFORE).apps.get_model("catalog", "Model")
    for name, path in (("a", "/models/a"), ("b", "org/b"), ("c", "https://store/c.tar"), ("d", "~/d"), ("e", "s3://e")):
        old.objects.create(name=name, path=path, description="kept", created_at=timezone.now())
    executor = MigrationExecutor(connection)
    executor.migrate([key for key in executor.loader.graph.leaf_nodes() if key[0] == "catalog"])

    rows = {model.name: model for model in Model.objects.all()}
    assert {name: model.source for name, model in rows.items()} == {
        "a": "directory",
        "b": "hub",
        "c": "web",
        "d": "directory",
        "e": "web",
    }
    assert {(model.description, model.known_shape, model.revision) for model in rows.values()} == {("kept", None, "")}
