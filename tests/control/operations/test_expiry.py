"""Claims about giving up: after a time that was really watched, whatever the clock does."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from controlplane.operations.models import Operation
from controlplane.operations.services import (
    OnConflict,
    operation_finish,
    operation_step,
    operations_dequeue,
    operations_expire,
)
from controlplane.operations.workflows import Workflow, register
from inference.contracts.states import OperationKind, OperationState, StepState
from tests.control.conftest import Clock
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import P2, start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


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


def test_a_clock_that_jumps_ahead_fails_nothing(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 60
    operations = [start(), start(P2)]
    operations_expire(now=now.advance(5))

    assert operations_expire(now=now.advance(86_400)) == 0
    assert operations_expire(now=now.advance(5)) == 0
    assert {Operation.objects.get(pk=each.pk).state for each in operations} == {OperationState.RUNNING}


def test_a_clock_that_goes_back_neither_fails_anything_nor_keeps_it_for_ever(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 60
    start()
    operations_expire(now=now.advance(30))
    assert operations_expire(now=now.advance(-86_400)) == 0

    failed = [operations_expire(now=now.advance(5)) for _ in range(10)]
    assert sum(failed) == 1


def test_a_pause_of_the_control_plane_is_not_held_against_anybody(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 60
    start()
    for _ in range(3):
        operations_expire(now=now.advance(5))

    assert operations_expire(now=now.advance(600)) == 0


def test_owners_may_keep_deadlines_of_their_own(now: Clock, settings: Settings, wanted: Wanted) -> None:
    settings.OPERATION_DEADLINE_S = 1
    register(Workflow(OperationKind.FLIP, begin=wanted.begin, expires=False))
    start(kind=OperationKind.FLIP)

    assert operations_expire(now=now.advance(10)) == 0


def test_waiting_in_the_queue_is_not_running(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 60
    first = start(kind=OperationKind.ROLL_OUT)
    waiting = start(on_conflict=OnConflict.QUEUE)
    for _ in range(11):
        operations_expire(now=now.advance(5))

    waiting.refresh_from_db()
    assert waiting.state == OperationState.QUEUED
    operation_finish(first, OperationState.SUCCEEDED, "Done.")
    operations_dequeue()
    waiting.refresh_from_db()
    assert (waiting.state, waiting.running_s) == (OperationState.RUNNING, 0.0)


def test_nothing_waits_in_the_queue_for_ever(now: Clock, settings: Settings, wanted: Wanted) -> None:
    settings.OPERATION_DEADLINE_S, settings.OPERATION_QUEUE_DEADLINE_S = 3600, 60
    first = start(kind=OperationKind.ROLL_OUT)
    waiting = start(on_conflict=OnConflict.QUEUE)
    failed = [operations_expire(now=now.advance(5)) for _ in range(13)]

    waiting.refresh_from_db()
    first.refresh_from_db()
    assert (sum(failed), failed[-1]) == (1, 1)
    assert (waiting.state, first.state) == (OperationState.FAILED, OperationState.RUNNING)
    assert waiting.outcome == "Not begun after 60 s in the queue. It has changed nothing."
    assert waiting.started_at is None


def test_what_it_was_at_is_what_failed(now: Clock, settings: Settings) -> None:
    settings.OPERATION_DEADLINE_S = 1
    operation = start()
    operation_step(operation, "drain decode-1", key="drain", state=StepState.RUNNING)
    operations_expire(now=now.advance(2))

    step = operation.steps.get()
    assert step.state == StepState.FAILED
    assert step.cause == "Not done after 1 s: drain decode-1. What was asked for stays wanted."
