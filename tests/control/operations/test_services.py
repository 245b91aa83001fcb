from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.services import (
    operation_finish,
    operation_progress,
    operation_step,
    operations_expire,
)
from inference.contracts.console import OperationChanged
from inference.contracts.states import OperationState
from tests.control.conftest import Clock, Outbox
from tests.control.operations.records import P2, start
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_operation_starts_running_and_consoles_are_told(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        operation = start()
        assert outbox.events == [], "nothing is announced before it is committed"

    [event] = outbox.events
    assert isinstance(event, OperationChanged)
    assert event.operation.id == str(operation.pk)
    assert (event.operation.state, event.operation.progress) == (OperationState.RUNNING, 0.0)
    assert (event.operation.target, event.operation.before) == ("chat/decode", "1 replica")


def test_what_is_rolled_back_is_not_announced(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        start()
        transaction.set_rollback(True)

    assert outbox.events == []
    assert not Operation.objects.exists()


def test_a_later_operation_on_the_same_target_supersedes_the_running_one() -> None:
    first, elsewhere = start(), start(targets=(P2,))
    second = start(title="Resize decode to 3")

    for operation in (first, elsewhere, second):
        operation.refresh_from_db()
    assert (first.state, first.outcome) == (OperationState.SUPERSEDED, "Resize decode to 3 took over.")
    assert first.finished_at is not None
    assert elsewhere.state == second.state == OperationState.RUNNING


def test_the_database_refuses_two_running_operations_on_one_target() -> None:
    start()
    twin = start(P2).targets.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        OperationTarget.objects.filter(pk=twin.pk).update(target_id="p1")


def test_the_same_step_twice_in_a_row_is_written_once() -> None:
    operation = start()
    for text in ("2 of 3 ready", "2 of 3 ready", "3 of 3 ready", "2 of 3 ready"):
        operation_step(operation, text)

    assert [step.text for step in operation.steps.all()] == ["2 of 3 ready", "3 of 3 ready", "2 of 3 ready"]


def test_a_long_step_is_cut_not_refused() -> None:
    operation = start()
    operation_step(operation, "x" * 1000)

    assert operation.steps.get().text == "x" * 299 + "…"


def test_progress_is_clipped_to_a_share_and_may_fall() -> None:
    operation = start()
    for share, kept in ((0.5, 0.5), (0.25, 0.25), (7.0, 1.0), (-1.0, 0.0)):
        operation_progress(operation, share)
        assert Operation.objects.get(pk=operation.pk).progress == kept


def test_unchanged_progress_tells_nobody(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    operation = start()
    operation_progress(operation, 0.5)
    with django_capture_on_commit_callbacks(execute=True):
        operation_progress(operation, 0.5)

    assert outbox.events == []


def test_success_means_all_is_done() -> None:
    operation = start()
    operation_progress(operation, 0.5)

    assert operation_finish(operation, OperationState.SUCCEEDED, "2 of 2 ready.")
    assert (operation.state, operation.progress, operation.outcome) == (OperationState.SUCCEEDED, 1.0, "2 of 2 ready.")
    assert operation.finished_at is not None


def test_failure_keeps_the_progress_it_had() -> None:
    operation = start()
    operation_progress(operation, 0.5)
    operation_finish(operation, OperationState.FAILED, "No device is free.")

    assert operation.progress == 0.5


def test_an_operation_finishes_once() -> None:
    operation = start()
    stale = Operation.objects.get(pk=operation.pk)

    assert operation_finish(operation, OperationState.FAILED, "No device is free.")
    assert not operation_finish(stale, OperationState.SUCCEEDED, "2 of 2 ready.")
    assert (stale.state, stale.outcome) == (OperationState.FAILED, "No device is free.")


def test_nothing_is_added_after_the_end() -> None:
    operation = start()
    stale = Operation.objects.get(pk=operation.pk)
    operation_finish(operation, OperationState.FAILED, "No device is free.")
    operation_step(stale, "3 of 3 ready")
    operation_progress(stale, 1.0)

    assert not operation.steps.exists()
    assert Operation.objects.get(pk=operation.pk).progress == 0.0


def test_running_is_no_end() -> None:
    with pytest.raises(ValueError, match="is not running any more"):
        operation_finish(start(), OperationState.RUNNING, "")


def test_an_operation_that_takes_too_long_is_closed_as_failed(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 60
    old = start()
    operation_step(old, "decode-1 is loading the model")
    for _ in range(12):
        assert operations_expire(now=now.advance(5)) == 0
    young = start(P2)

    assert operations_expire(now=now.advance(1)) == 1
    old.refresh_from_db()
    young.refresh_from_db()
    assert (old.state, young.state) == (OperationState.FAILED, OperationState.RUNNING)
    assert old.outcome == "Not done after 60 s: decode-1 is loading the model. What was asked for stays wanted."


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_that_finish_an_operation_one_does(outbox: Outbox) -> None:
    operation = start()
    copies = [Operation.objects.get(pk=operation.pk) for _ in range(2)]
    outbox.events.clear()

    moved = at_once(
        lambda: operation_finish(copies[0], OperationState.SUCCEEDED, "2 of 2 ready."),
        lambda: operation_finish(copies[1], OperationState.FAILED, "Too late."),
    )

    assert sorted(moved) == [False, True], moved
    assert len(outbox.events) == 1
    operation.refresh_from_db()
    assert operation.state == copies[moved.index(True)].state


@pytest.mark.django_db(transaction=True)
def test_of_operations_started_at_once_on_one_target_one_runs_in_the_end(outbox: Outbox) -> None:
    started = at_once(*(lambda number=number: start(title=f"Resize decode to {number}") for number in range(4)))

    assert all(isinstance(operation, Operation) for operation in started), started
    states = sorted(Operation.objects.values_list("state", flat=True))
    assert states == sorted([OperationState.RUNNING, *[OperationState.SUPERSEDED] * 3])


@pytest.mark.django_db(transaction=True)
def test_steps_written_at_once_keep_the_no_repeat_rule(outbox: Outbox) -> None:
    operation = start()
    at_once(*(lambda: operation_step(Operation.objects.get(pk=operation.pk), "1 of 2 ready") for _ in range(4)))

    assert operation.steps.count() == 1
