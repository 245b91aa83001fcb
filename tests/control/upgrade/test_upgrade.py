"""Claims about the way from release 0.1.0 to this one, with rows of every kind in the database (F39)."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from controlplane.core import clock
from controlplane.core.errors import NotFound
from controlplane.core.release import applied_migrations, known_migrations
from controlplane.fleet.models import JoinToken, Node
from controlplane.operations.models import Operation
from controlplane.operations.services import operation_retry
from controlplane.pools.models import Allocation, Worker
from controlplane.pools.node_spec import node_specs
from controlplane.pools.reconcile import deployment_reconcile
from controlplane.pools.sweep import sweep
from inference.contracts.states import OperationState, Role, WorkerDesired, WorkerPhase
from tests.control.conftest import Clock, Outbox
from tests.control.upgrade import database
from tests.control.upgrade.release_0_1 import GOING, INCARNATION, NODE_A, NOON, PREFILL

pytestmark = pytest.mark.postgres


def migrate() -> None:
    call_command("migrate", verbosity=0)


def test_every_row_of_the_previous_release_migrates(previous_release: None) -> None:
    migrate()

    assert applied_migrations(connection) == known_migrations(connection)
    assert {node.name: (node.generation, node.secured, node.scoped) for node in Node.objects.all()} == {
        "a": (4, False, None),
        "b": (4, False, None),
    }
    assert JoinToken.objects.filter(used_at=None).count() == 1
    assert Allocation.objects.count() == 4
    states = Operation.objects.values_list("state", flat=True)
    assert sorted(states) == ["failed", "failed", "running", "running", "succeeded", "superseded"]


def test_workers_go_on_as_what_they_are(previous_release: None, now: Clock, outbox: Outbox) -> None:
    """The specs of the new release name the same processes, so agents that compare them stop and start nothing."""
    migrate()
    now.time = NOON
    before = {worker.name: worker.pk for worker in Worker.objects.all()}
    serving = Worker.objects.get(name="decode-1")
    deployment_reconcile(serving.pool.deployment_id)

    workers = Worker.objects.all()
    assert {worker.name: worker.pk for worker in workers} == before
    assert {w.name: w.incarnation for w in workers if w.name in INCARNATION} == INCARNATION
    spec = {each.incarnation: each for each in node_specs([Node.objects.get(pk=NODE_A)])[0].workers}
    for incarnation in INCARNATION.values():
        assert spec[str(incarnation)].desired == WorkerDesired.RUN
        assert spec[str(incarnation)].restart == 0
    serving.refresh_from_db()
    assert (serving.phase, serving.http_port, serving.observed_role) == ("ready", 9000, "decode")


def test_running_operations_go_on_and_end(previous_release: None, now: Clock, outbox: Outbox) -> None:
    migrate()
    now.time = NOON
    sweep(now=clock.now(), read_to=clock.now())
    resize, delete = Operation.objects.filter(state=OperationState.RUNNING).order_by("-kind")
    assert (resize.request["replicas"], resize.request["was"]) == (2, 1)

    Worker.objects.filter(pool=PREFILL).update(phase=WorkerPhase.READY, observed_role=Role.PREFILL)
    Worker.objects.filter(pool=GOING).delete()
    now.advance(5)
    sweep(now=clock.now(), read_to=clock.now())

    for operation in (resize, delete):
        operation.refresh_from_db()
        assert operation.state == OperationState.SUCCEEDED, operation.title


def test_what_failed_in_the_previous_release_can_be_tried_again(
    previous_release: None, now: Clock, outbox: Outbox
) -> None:
    migrate()
    there, gone = Operation.objects.filter(state=OperationState.FAILED).order_by("title")

    assert operation_retry(there.pk, by="admin").retry_of == there
    with pytest.raises(NotFound):
        operation_retry(gone.pk, by="admin")


@pytest.mark.parametrize("after_statements", [40, 240], ids=["early", "late"])
def test_an_upgrade_that_is_killed_leaves_everything_untouched_and_can_be_repeated(
    previous_release: None, tmp_path: Path, after_statements: int
) -> None:
    before = database.content()

    assert database.migrate_and_be_killed(after_statements, tmp_path).returncode == 137
    assert database.content() == before
    migrate()

    assert applied_migrations(connection) == known_migrations(connection)
    assert Worker.objects.filter(revision__number=1).count() == 4


def test_a_database_of_a_newer_release_is_left_alone_with_one_clear_sentence(
    previous_release: None, tmp_path: Path
) -> None:
    migrate()
    MigrationRecorder(connection).record_applied("fleet", "0099_of_next_year")
    before = database.content()

    with pytest.raises(CommandError, match=r"newer release of Tandem: its migration fleet\.0099_of_next_year is not"):
        migrate()
    refused = database.run("manage.py", "migrate", data=tmp_path)

    assert refused.returncode == 1
    assert refused.stderr.startswith("CommandError: The database was filled by a newer release of Tandem")
    assert len(refused.stderr.splitlines()) == 1
    assert database.content() == before
