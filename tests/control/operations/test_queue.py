"""Claims about waiting: who waits for whom, in what order they begin, and what becomes of those that can't."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from controlplane.core.errors import Conflict, StaleGeneration
from controlplane.operations.models import Operation
from controlplane.operations.presenters import operation_view
from controlplane.operations.services import (
    OnConflict,
    operation_cancel,
    operation_finish,
    operation_progress,
    operation_step,
    operations_dequeue,
    operations_sweep,
)
from inference.contracts.console import OperationChanged
from inference.contracts.states import OperationKind, OperationState
from tests.control.conftest import Clock, Outbox
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import P1, P2, start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

Committing = Callable[[], AbstractContextManager[object]]


def queue(*targets, **changes) -> Operation:
    return start(*targets, **({"on_conflict": OnConflict.QUEUE} | changes))


def states(*operations: Operation) -> list[str]:
    return [Operation.objects.get(pk=operation.pk).state for operation in operations]


@pytest.fixture
def roll_out(wanted: Wanted) -> Operation:
    """Runs on both pools."""
    return start(P1, P2, kind=OperationKind.ROLL_OUT, title="Roll out 3")


def test_one_that_may_wait_does_and_changes_nothing_yet(roll_out: Operation, wanted: Wanted) -> None:
    waiting = queue(P1)

    assert (waiting.state, waiting.started_at) == (OperationState.QUEUED, None)
    assert wanted.began == ["Roll out 3"]
    assert operation_view(waiting).queued_behind == (str(roll_out.pk),)
    assert not waiting.targets.filter(held=True).exists()


def test_one_that_may_wait_but_need_not_begins_at_once() -> None:
    assert queue(P1).state == OperationState.RUNNING


def test_it_begins_when_what_it_waits_for_has_ended(
    roll_out: Operation, wanted: Wanted, now: Clock, committing: Committing
) -> None:
    waiting = queue(P1, title="Resize")
    now.advance(60)
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")

    waiting.refresh_from_db()
    assert (waiting.state, waiting.started_at) == (OperationState.RUNNING, now())
    assert wanted.began == ["Roll out 3", "Resize"]


@pytest.mark.parametrize("end", [OperationState.FAILED, OperationState.SUPERSEDED, OperationState.CANCELLED])
def test_however_that_ended(roll_out: Operation, end: OperationState, committing: Committing) -> None:
    waiting = queue(P1)
    with committing():
        operation_finish(roll_out, end, "Over.")

    assert states(waiting) == [OperationState.RUNNING]


def test_they_begin_in_the_order_in_which_they_asked_even_when_the_clock_went_back(
    roll_out: Operation, wanted: Wanted, now: Clock, committing: Committing
) -> None:
    first = queue(P1, kind=OperationKind.DELETE, title="first")
    now.advance(-3600)
    second = queue(P1, kind=OperationKind.ROLL_OUT, title="second")
    assert operation_view(second).queued_behind == (str(roll_out.pk), str(first.pk))

    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")
    assert states(first, second) == [OperationState.RUNNING, OperationState.QUEUED]

    with committing():
        operation_finish(first, OperationState.SUCCEEDED, "Done.")
    assert states(second) == [OperationState.RUNNING]
    assert wanted.began == ["Roll out 3", "first", "second"]


def test_nobody_passes_one_that_waits_longer(committing: Committing) -> None:
    """Else a stream of small changes could keep a large one waiting for ever."""
    small = start(P1, kind=OperationKind.ROLL_OUT)
    large = queue(P1, P2, kind=OperationKind.DELETE)

    with pytest.raises(Conflict, match="is queued on chat/prefill"):
        start(P2)
    behind = queue(P2)
    assert operation_view(behind).queued_behind == (str(large.pk),)

    with committing():
        operation_finish(small, OperationState.SUCCEEDED, "Done.")
    assert states(large, behind) == [OperationState.RUNNING, OperationState.QUEUED]


def test_those_that_share_nothing_begin_together(roll_out: Operation, committing: Committing) -> None:
    one, other = queue(P1), queue(P2)
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")

    assert states(one, other) == [OperationState.RUNNING, OperationState.RUNNING]


def test_a_running_one_can_be_superseded_whoever_waits_behind_it() -> None:
    running = start(P1)
    waiting = queue(P1, kind=OperationKind.DELETE)

    later = start(P1, title="Resize decode to 3")

    assert states(running, waiting, later) == [
        OperationState.SUPERSEDED,
        OperationState.QUEUED,
        OperationState.RUNNING,
    ]
    assert operation_view(waiting).queued_behind == (str(later.pk),)


def test_a_later_request_of_the_kind_replaces_the_one_that_waits(roll_out: Operation) -> None:
    two, three = queue(P1, title="Resize to 2"), queue(P1, title="Resize to 3")

    assert states(two, three) == [OperationState.SUPERSEDED, OperationState.QUEUED]
    assert Operation.objects.get(pk=two.pk).outcome == "Resize to 3 took over."
    assert operation_view(three).queued_behind == (str(roll_out.pk),)


def test_one_whose_beginning_is_refused_when_its_turn_comes_fails_with_that_sentence(
    roll_out: Operation, wanted: Wanted, committing: Committing
) -> None:
    waiting, next_one = queue(P1), queue(P1, kind=OperationKind.DELETE)
    wanted.refuse = StaleGeneration("The decode pool of chat", 3, {"generation": 5})
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")

    waiting.refresh_from_db()
    assert (waiting.state, waiting.started_at) == (OperationState.FAILED, None)
    assert waiting.outcome.startswith("The decode pool of chat was changed meanwhile: you saw generation 3")
    assert not waiting.targets.filter(held=True).exists()
    assert states(next_one) == [OperationState.FAILED], "it had its turn in the same look"


def test_one_that_is_done_as_soon_as_it_begins_frees_the_next_one(
    roll_out: Operation, wanted: Wanted, committing: Committing
) -> None:
    first, second = queue(P1, kind=OperationKind.DELETE, title="first"), queue(P1, title="second")
    wanted.done_at_once = True
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")

    assert states(first, second) == [OperationState.SUCCEEDED, OperationState.SUCCEEDED]
    assert wanted.began == ["Roll out 3", "first", "second"]


def test_an_error_in_one_beginning_does_not_keep_the_others_waiting(
    roll_out: Operation, wanted: Wanted, committing: Committing
) -> None:
    broken, fine = queue(P1), queue(P2, title="fine")
    wanted.break_on = broken.title
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")
    assert states(broken, fine) == [OperationState.QUEUED, OperationState.RUNNING]

    wanted.break_on = None
    assert operations_dequeue() == 1
    assert states(broken) == [OperationState.RUNNING]


def test_the_sweep_begins_what_a_lost_call_left_waiting(roll_out: Operation, now: Clock) -> None:
    waiting = queue(P1)
    operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")  # whose process died before its commit hooks ran
    assert states(waiting) == [OperationState.QUEUED]

    operations_sweep(now=now())
    assert states(waiting) == [OperationState.RUNNING]


def test_cancelling_one_that_waits_frees_those_behind_it(committing: Committing) -> None:
    start(P1, kind=OperationKind.ROLL_OUT)
    middle = queue(P1, P2, kind=OperationKind.DELETE)
    last = queue(P2)

    with committing():
        operation_cancel(middle.pk, by="ada")
    assert states(middle, last) == [OperationState.CANCELLED, OperationState.RUNNING]


def test_nothing_happens_on_the_way_of_one_that_waits(roll_out: Operation) -> None:
    waiting = queue(P1)
    operation_step(waiting, "decode-2 is loading")
    operation_progress(waiting, 0.5)

    waiting.refresh_from_db()
    assert waiting.progress == 0.0
    assert not waiting.steps.exists()


def test_consoles_learn_what_is_waited_for_now(roll_out: Operation, outbox: Outbox, committing: Committing) -> None:
    first = queue(P1, kind=OperationKind.DELETE)
    second = queue(P1)
    with committing():
        operation_finish(roll_out, OperationState.SUCCEEDED, "Done.")

    told = {event.operation.id: event.operation for event in outbox.events if isinstance(event, OperationChanged)}
    assert told[str(first.pk)].state == OperationState.RUNNING
    assert told[str(second.pk)].queued_behind == (str(first.pk),)
