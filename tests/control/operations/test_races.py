"""Claims about what happens at the same moment, each over its own database connection."""

from __future__ import annotations

from functools import partial

import pytest

from controlplane.core.errors import Conflict
from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.services import (
    OnConflict,
    operation_cancel,
    operation_finish,
    operation_retry,
    operation_step,
    operations_dequeue,
)
from inference.contracts.states import OperationKind, OperationState
from tests.control.conftest import Outbox
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import CHAT, P1, P2, start
from tests.control.races import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


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


def test_of_operations_started_at_once_on_one_target_one_runs_in_the_end(outbox: Outbox) -> None:
    started = at_once(*(lambda number=number: start(title=f"Resize decode to {number}") for number in range(4)))

    assert all(isinstance(operation, Operation) for operation in started), started
    states = sorted(Operation.objects.values_list("state", flat=True))
    assert states == sorted([OperationState.RUNNING, *[OperationState.SUPERSEDED] * 3])


def test_steps_written_at_once_keep_the_no_repeat_rule(outbox: Outbox) -> None:
    operation = start()
    at_once(*(lambda: operation_step(Operation.objects.get(pk=operation.pk), "1 of 2 ready") for _ in range(4)))

    assert operation.steps.count() == 1


def test_of_operations_that_conflict_and_start_at_once_exactly_one_runs(outbox: Outbox, wanted: Wanted) -> None:
    answers = at_once(*[partial(start, P1, kind=OperationKind.ROLL_OUT)] * 4)

    running = [answer for answer in answers if isinstance(answer, Operation)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(running), len(refused)) == (1, 3), answers
    assert {refusal.current["operation"] for refusal in refused} == {str(running[0].pk)}
    assert Operation.objects.count() == len(wanted.began) == 1


def test_starts_that_name_their_targets_in_opposite_orders_never_wait_for_each_other(outbox: Outbox) -> None:
    for _ in range(8):
        answers = at_once(
            partial(start, P1, P2, CHAT, kind=OperationKind.ROLL_OUT),
            partial(start, CHAT, P2, P1, kind=OperationKind.DELETE),
        )
        running = [answer for answer in answers if isinstance(answer, Operation)]
        assert len(running) == 1, answers
        assert sum(isinstance(answer, Conflict) for answer in answers) == 1, answers
        operation_finish(running[0], OperationState.SUCCEEDED, "Done.")


def test_of_operations_that_may_wait_one_runs_and_the_others_follow_one_by_one(outbox: Outbox, wanted: Wanted) -> None:
    at_once(*[partial(start, P1, kind=OperationKind.ROLL_OUT, on_conflict=OnConflict.QUEUE)] * 4)

    for left in (3, 2, 1, 0):
        running = Operation.objects.get(state=OperationState.RUNNING)
        assert Operation.objects.filter(state=OperationState.QUEUED).count() == left
        operation_finish(running, OperationState.SUCCEEDED, "Done.")
    assert len(wanted.began) == 4


def test_one_that_queues_while_its_predecessor_ends_is_not_forgotten(outbox: Outbox) -> None:
    for _ in range(8):
        first = start(P1, kind=OperationKind.ROLL_OUT)
        finish = partial(operation_finish, first, OperationState.SUCCEEDED, "Done.")
        queue = partial(start, P1, kind=OperationKind.ROLL_OUT, on_conflict=OnConflict.QUEUE)
        answers = at_once(finish, queue)

        assert not [answer for answer in answers if isinstance(answer, Exception)], answers
        [running] = Operation.objects.filter(state=OperationState.RUNNING)
        assert running != first
        operation_finish(running, OperationState.SUCCEEDED, "Done.")


def test_looks_at_the_queue_at_once_begin_each_operation_once(outbox: Outbox, wanted: Wanted) -> None:
    both = start(P1, P2, kind=OperationKind.ROLL_OUT, title="both")
    for target in (P1, P2):
        start(target, title=target.name, on_conflict=OnConflict.QUEUE)
    OperationTarget.objects.filter(operation=both).update(held=False)
    Operation.objects.filter(pk=both.pk).update(state=OperationState.SUCCEEDED, finished_at=both.requested_at)

    began = at_once(*[operations_dequeue] * 3)

    assert sum(number for number in began if isinstance(number, int)) == 2, began
    assert sorted(wanted.began) == ["both", "chat/decode", "chat/prefill"]


def test_a_cancel_and_an_end_at_once_agree_on_one_outcome(outbox: Outbox, wanted: Wanted) -> None:
    for _ in range(8):
        operation = start()
        copy = Operation.objects.get(pk=operation.pk)
        answers = at_once(
            partial(operation_cancel, operation.pk, by="ada"),
            partial(operation_finish, copy, OperationState.SUCCEEDED, "Done."),
        )
        state = Operation.objects.get(pk=operation.pk).state
        if state == OperationState.SUCCEEDED:
            assert isinstance(answers[0], Conflict), answers
        else:
            assert (state, answers[1]) == (OperationState.CANCELLED, False), answers
    ended_by_cancel = Operation.objects.filter(state=OperationState.CANCELLED).count()
    assert len(wanted.cancelled) == ended_by_cancel


def test_of_retries_at_once_one_runs(outbox: Outbox) -> None:
    first = start(kind=OperationKind.RESIZE)
    operation_finish(first, OperationState.FAILED, "No device is free.")

    answers = at_once(*[partial(operation_retry, first.pk, by="ada")] * 3)

    assert Operation.objects.filter(state=OperationState.RUNNING).count() == 1, answers
