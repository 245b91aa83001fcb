"""F39: a database with the previous release's operations in it migrates, and back, with nothing lost.

Each test leaves the tables as they are today.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps.registry import Apps
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.presenters import operation_view
from inference.contracts.states import OperationState, StepState

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

BEFORE = "0002_one_running_operation_per_target"
AFTER = "0003_workflows"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def migrate(name: str) -> Apps:
    """Bring this app's tables to the migration `name`; the models as they were then."""
    executor = MigrationExecutor(connection)
    executor.migrate([("operations", name)])
    return MigrationExecutor(connection).loader.project_state([("operations", name)]).apps


@pytest.fixture
def before(transactional_db: None) -> Iterator[Apps]:
    """The previous release."""
    yield migrate(BEFORE)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def filled(apps: Apps) -> dict[str, UUID]:
    """An operation of each state, each with two steps, and one with none."""
    operations, steps = apps.get_model("operations", "Operation"), apps.get_model("operations", "OperationStep")
    ids: dict[str, UUID] = {}
    for number, state in enumerate(("running", "succeeded", "failed", "superseded")):
        began = NOON + timedelta(minutes=number)
        row: dict[str, Any] = {"kind": "resize", "target_kind": "pool", "target_id": "p1", "target_name": "chat/decode"}
        ended = None if state == "running" else began + timedelta(seconds=30)
        ids[state] = operations.objects.create(
            **row, id=uuid4(), state=state, target_generation=2 + number, title=f"Resize to {number}", reason="evening",
            requested_by="ada", before="1 worker", after=f"{number} workers", progress=0.5, outcome="",
            started_at=began, finished_at=ended,
        ).pk  # fmt: skip
        for seconds in (1, 2):
            at = began + timedelta(seconds=seconds)
            steps.objects.create(operation_id=ids[state], at=at, text=f"step {seconds}")
    ids["bare"] = operations.objects.create(
        id=uuid4(), kind="deploy", state="running", target_kind="deployment", target_id="1", target_name="chat",
        title="Deploy chat", requested_by="ada", started_at=NOON - timedelta(hours=1),
    ).pk  # fmt: skip
    return ids


def test_operations_keep_their_times_targets_and_steps(before: Apps) -> None:
    ids = filled(before)
    migrate(AFTER)

    shown = operation_view(Operation.objects.get(pk=ids["failed"]))
    assert (shown.target, shown.title, shown.reason, shown.after) == (
        "chat/decode",
        "Resize to 2",
        "evening",
        "2 workers",
    )
    assert shown.requested_at == shown.started_at == "2026-03-01T12:02:00.000Z"
    assert shown.finished_at == "2026-03-01T12:02:30.000Z"
    assert [(step.at, step.text, step.state, step.finished_at) for step in shown.steps] == [
        ("2026-03-01T12:02:01.000Z", "step 1", StepState.DONE, "2026-03-01T12:02:01.000Z"),
        ("2026-03-01T12:02:02.000Z", "step 2", StepState.DONE, "2026-03-01T12:02:02.000Z"),
    ]
    assert (shown.preview, shown.retry_of, shown.queued_behind) == (None, None, ())
    assert Operation.objects.count() == 5


def test_what_runs_holds_its_target_and_what_ended_does_not(before: Apps) -> None:
    ids = filled(before)
    migrate(AFTER)

    held = OperationTarget.objects.filter(held=True)
    assert {target.operation_id for target in held} == {ids["running"], ids["bare"]}
    assert OperationTarget.objects.count() == 5
    ended = OperationTarget.objects.get(operation=ids["failed"])
    with pytest.raises(IntegrityError), transaction.atomic():
        OperationTarget.objects.filter(pk=ended.pk).update(held=True)


def test_an_empty_database_migrates(before: Apps) -> None:
    migrate(AFTER)
    assert not Operation.objects.exists()


def test_going_back_keeps_what_the_previous_release_can_read(before: Apps) -> None:
    ids = filled(before)
    now = migrate(AFTER)
    operations, targets = now.get_model("operations", "Operation"), now.get_model("operations", "OperationTarget")
    common = {"title": "New", "requested_by": "ada", "requested_at": NOON}
    queued = operations.objects.create(kind="resize", state="queued", **common)
    cancelled = operations.objects.create(kind="delete", state="cancelled", finished_at=NOON, **common)
    unknown = operations.objects.create(kind="roll_out", state="running", started_at=NOON, **common)
    for operation in (queued, cancelled, unknown):
        targets.objects.create(operation=operation, kind="deployment", target_id="2", name="code")
        targets.objects.create(operation=operation, kind="pool", target_id="p7", name="code/decode")

    old = migrate(BEFORE)
    back = {row.pk: row for row in old.get_model("operations", "Operation").objects.all()}
    assert set(back) == {*ids.values(), queued.pk, cancelled.pk}
    assert (back[ids["running"]].target_kind, back[ids["running"]].target_id) == ("pool", "p1")
    assert (back[queued.pk].state, back[queued.pk].target_name) == ("failed", "code")
    assert (back[cancelled.pk].state, back[cancelled.pk].started_at) == ("failed", NOON)
    steps = old.get_model("operations", "OperationStep").objects.filter(operation_id=ids["failed"])
    assert [step.at for step in steps] == [
        NOON + timedelta(minutes=2, seconds=1),
        NOON + timedelta(minutes=2, seconds=2),
    ]

    migrate(AFTER)
    assert Operation.objects.get(pk=ids["running"]).state == OperationState.RUNNING
