"""Claims about telling at once how an operation stands."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.operations.models import Operation
from controlplane.operations.services import Standing, operation_finish, operation_report
from inference.contracts.states import OperationState, StepState
from tests.control.operations.records import start

pytestmark = pytest.mark.django_db


def said(operation: Operation) -> list[tuple[str, str, str]]:
    return list(operation.steps.values_list("key", "text", "state"))


def test_a_step_is_one_row_that_begins_and_ends() -> None:
    operation = start()
    operation_report(operation, [Standing("a", "a is starting")], 0.2)
    operation_report(operation, [Standing("a", "a is loading")], 0.5)
    operation_report(operation, [Standing("a", "a is ready", StepState.DONE)], 1.0)

    assert said(operation) == [("a", "a is ready", "done")]
    assert operation.steps.get().finished_at is not None
    assert operation.progress == 1.0


def test_what_is_not_mentioned_any_more_is_done_and_may_go_on_later() -> None:
    operation = start()
    operation_report(operation, [Standing("wait", "waits for a device")], 0.0)
    operation_report(operation, [], 0.0)
    operation_report(operation, [Standing("wait", "waits again")], 0.0)

    assert said(operation) == [("wait", "waits for a device", "done"), ("wait", "waits again", "running")]


def test_what_ended_is_not_told_twice() -> None:
    operation = start()
    for _ in range(2):
        operation_report(operation, [Standing("a", "a failed", StepState.FAILED, "out of memory")], 0.0)

    assert operation.steps.get().cause == "out of memory"


def test_nothing_is_written_after_the_end() -> None:
    operation = start()
    operation_finish(operation, OperationState.SUCCEEDED, "done")
    operation_report(operation, [Standing("a", "too late")], 0.1)

    assert said(operation) == []
    assert Operation.objects.get().progress == 1.0


def test_many_steps_cost_no_more_queries_than_few(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    operation = start()
    for text in ("is starting", "is loading"):
        with django_assert_max_num_queries(12):
            operation_report(operation, [Standing(str(n), f"{n} {text}") for n in range(50)], 0.5)
