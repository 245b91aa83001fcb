"""Claims about what is told on the way."""

from __future__ import annotations

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.operations.models import Operation
from controlplane.operations.services import operation_finish, operation_progress, operation_step
from inference.contracts.states import OperationState, StepState
from tests.control.conftest import Clock, Outbox
from tests.control.operations.records import start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


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


def test_nothing_is_added_after_the_end() -> None:
    operation = start()
    stale = Operation.objects.get(pk=operation.pk)
    operation_finish(operation, OperationState.FAILED, "No device is free.")
    operation_step(stale, "3 of 3 ready")
    operation_progress(stale, 1.0)

    assert not operation.steps.exists()
    assert Operation.objects.get(pk=operation.pk).progress == 0.0


def test_a_step_with_a_key_is_one_row_from_its_start_to_its_end(now: Clock) -> None:
    operation, began = start(), now()
    operation_step(operation, "drain decode-1: 3 answers left", key="drain", state=StepState.RUNNING, cause="resize")
    now.advance(4)
    operation_step(operation, "drain decode-1: 1 answer left", key="drain", state=StepState.RUNNING, cause="resize")
    now.advance(2)
    operation_step(operation, "decode-1 is gone", key="drain")

    step = operation.steps.get()
    assert (step.text, step.state) == ("decode-1 is gone", StepState.DONE)
    assert (step.started_at, step.finished_at) == (began, now())


def test_saying_again_what_is_known_of_a_step_writes_nothing(now: Clock) -> None:
    operation = start()
    for _ in range(3):
        operation_step(operation, "decode-1", key="1", state=StepState.RUNNING)
        operation_step(operation, "decode-2", key="2", state=StepState.RUNNING)
        now.advance(1)
    operation_step(operation, "decode-1", key="1")
    ended = operation.steps.get(key="1").finished_at
    now.advance(1)
    operation_step(operation, "decode-1", key="1")

    assert operation.steps.count() == 2
    assert operation.steps.get(key="1").finished_at == ended


def test_a_step_that_runs_again_after_its_end_is_told_as_another() -> None:
    operation = start()
    operation_step(operation, "decode-1 is loading", key="1", state=StepState.RUNNING)
    operation_step(operation, "decode-1 is ready", key="1")
    operation_step(operation, "decode-1 died", key="1", state=StepState.RUNNING)

    assert [(step.text, step.state) for step in operation.steps.all()] == [
        ("decode-1 is ready", StepState.DONE),
        ("decode-1 died", StepState.RUNNING),
    ]


def test_a_remark_is_over_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="needs a key"):
        operation_step(start(), "decode-1 is loading", state=StepState.RUNNING)
