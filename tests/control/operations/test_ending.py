"""Claims about the end of an operation, and of what it held and did."""

from __future__ import annotations

import pytest

from controlplane.operations.models import Operation
from controlplane.operations.services import operation_finish, operation_progress, operation_step
from inference.contracts.states import OperationState, StepState
from tests.control.conftest import Clock
from tests.control.operations.records import start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


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


def test_running_is_no_end() -> None:
    with pytest.raises(ValueError, match="is not running any more"):
        operation_finish(start(), OperationState.RUNNING, "")


def test_what_ended_holds_nothing() -> None:
    operation = start()
    assert operation.targets.get().held

    operation_finish(operation, OperationState.FAILED, "No device is free.")
    assert not operation.targets.get().held


@pytest.mark.parametrize(
    ("end", "step", "cause"),
    [
        (OperationState.SUCCEEDED, StepState.DONE, "resize"),
        (OperationState.FAILED, StepState.FAILED, "Over."),
        (OperationState.SUPERSEDED, StepState.SKIPPED, "Over."),
        (OperationState.CANCELLED, StepState.SKIPPED, "Over."),
    ],
)
def test_no_step_runs_on_after_the_end(end: OperationState, step: StepState, cause: str, now: Clock) -> None:
    operation = start()
    operation_step(operation, "drain decode-1", key="drain", state=StepState.RUNNING, cause="resize")
    now.advance(3)
    operation_finish(operation, end, "Over.")

    last = operation.steps.get()
    assert (last.state, last.cause, last.finished_at) == (step, cause, now())


def test_where_one_step_was_blamed_the_others_are_not() -> None:
    operation = start()
    operation_step(operation, "start decode-1", key="1", state=StepState.RUNNING)
    operation_step(operation, "start decode-2", key="2", state=StepState.FAILED, cause="out of memory")
    operation_finish(operation, OperationState.FAILED, "decode-2 failed: out of memory")

    assert [(step.key, step.state, step.cause) for step in operation.steps.all()] == [
        ("1", StepState.SKIPPED, "decode-2 failed: out of memory"),
        ("2", StepState.FAILED, "out of memory"),
    ]
