"""F39: rows of the previous release are kept, forwards and back."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from controlplane.core import clock
from controlplane.fleet.credentials import message_args
from controlplane.fleet.models import Device, Node
from controlplane.fleet.presenters import node_view

OLD = [("fleet", "0002_watch_and_boots")]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


@pytest.fixture
def previous_release() -> Iterator[Apps]:
    """The fleet's tables as the previous release left them; afterwards as they are now."""
    executor = MigrationExecutor(connection)
    executor.migrate(OLD)
    yield executor.loader.project_state(OLD).apps
    call_command("migrate", verbosity=0)


def test_a_node_of_the_previous_release_is_active_unsecured_and_as_it_was(previous_release: Apps) -> None:
    node_id = uuid4()
    old = previous_release.get_model("fleet", "Node").objects.create(
        id=node_id, name="a", hostname="a", address="10.0.0.1", phase="ready", joined_at=clock.now(), sequence=7
    )
    previous_release.get_model("fleet", "Device").objects.create(
        node=old, device_id="cpu-0", kind="cpu", index=0, name="2 cores", cores="0,1"
    )
    call_command("migrate", verbosity=0)

    node = Node.objects.get()
    assert (node.pk, node.desired, node.labels, node.sequence, node.phase) == (node_id, "active", [], 7, "ready")
    assert (node.secured, node.scoped) == (False, None)
    assert message_args(node, "task", "spec") == ("spec",)
    view = node_view(node, {})
    assert [device.cores for device in view.devices] == [(0, 1)]
    assert len(view.warnings) == 2
    assert not Device.objects.get().maintenance
