"""Claims about beginning: at once, refused, or in the place of another."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation, OperationTarget
from controlplane.operations.services import OnConflict, operation_finish
from inference.contracts.console import OperationChanged
from inference.contracts.states import OperationKind, OperationState
from inference.contracts.views.operations import OperationPreview
from tests.control.conftest import Outbox
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import CHAT, OTHER, P1, P2, start

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
    first, elsewhere = start(), start(P2)
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


def test_what_is_wanted_is_written_when_it_begins(wanted: Wanted) -> None:
    operation = start()

    assert wanted.began == [operation.title]
    assert operation.request == {"replicas": 2}


def test_what_is_done_as_soon_as_it_begins_has_ended(wanted: Wanted) -> None:
    wanted.done_at_once = True
    operation = start()

    assert (operation.state, operation.outcome) == (OperationState.SUCCEEDED, "Done.")
    assert not operation.targets.get().held


def test_a_refused_beginning_leaves_no_record_and_supersedes_nothing(wanted: Wanted) -> None:
    first = start()
    wanted.refuse = Invalid("2 workers need as many devices, and the fleet has 1.")

    with pytest.raises(Invalid, match="the fleet has 1"):
        start(title="Resize decode to 3")

    first.refresh_from_db()
    assert first.state == OperationState.RUNNING
    assert first.targets.get().held
    assert Operation.objects.count() == 1


def test_an_operation_on_a_target_that_another_has_is_refused_with_its_id_and_title(wanted: Wanted) -> None:
    first = start(P1, P2, kind=OperationKind.ROLL_OUT, title="Roll out revision 3")

    with pytest.raises(Conflict) as refused:
        start(P2, title="Resize prefill to 3")

    assert refused.value.code == "operation_conflict"
    assert refused.value.current == {"operation": str(first.pk), "title": "Roll out revision 3", "state": "running"}
    assert refused.value.message == (
        f'"Roll out revision 3" (operation {first.pk}) runs on chat/prefill. Wait until it has ended, cancel it, or '
        "ask to be queued behind it."
    )
    assert wanted.began == ["Roll out revision 3"]


def test_a_kind_that_supersedes_its_like_does_so_only_on_the_same_targets() -> None:
    start(P1, P2)

    with pytest.raises(Conflict):
        start(P1)
    with pytest.raises(Conflict):
        start(P1, P2, CHAT)
    assert start(P2, P1).state == OperationState.RUNNING, "in whatever order they are named"


def test_one_that_supersedes_all_ends_whatever_is_open_on_its_targets() -> None:
    roll_out = start(P1, P2, kind=OperationKind.ROLL_OUT)
    resize = start(P1, on_conflict=OnConflict.QUEUE)
    elsewhere = start(OTHER)

    delete = start(CHAT, P1, P2, kind=OperationKind.DELETE, title="Delete chat", supersede_all=True)

    for operation in (roll_out, resize):
        operation.refresh_from_db()
        assert (operation.state, operation.outcome) == (OperationState.SUPERSEDED, "Delete chat took over.")
        assert not operation.targets.filter(held=True).exists()
    assert delete.targets.filter(held=True).count() == 3
    assert elsewhere.targets.get().held


def test_what_it_was_asked_for_and_its_preview_are_kept() -> None:
    preview = OperationPreview(start=("decode-2 on node-1 cpu-3",), devices_max=2, budget=4)
    operation = Operation.objects.get(pk=start(preview=preview, request={"replicas": 2, "generation": 7}).pk)

    assert operation.request == {"replicas": 2, "generation": 7}
    assert operation.preview is not None
    assert operation.preview["start"] == ["decode-2 on node-1 cpu-3"]


def test_a_reason_is_no_essay() -> None:
    with pytest.raises(Invalid, match="at most 500 characters; this one has 501") as refused:
        start(reason="x" * 501)
    assert refused.value.field == "reason"


def test_a_kind_that_nobody_registered_is_named_with_those_that_are() -> None:
    with pytest.raises(LookupError, match="retire_node has no workflow; registered are delete, resize, roll_out"):
        start(kind=OperationKind.RETIRE_NODE)


def test_an_operation_that_ended_is_in_nobodys_way() -> None:
    operation_finish(start(P1, kind=OperationKind.ROLL_OUT), OperationState.SUCCEEDED, "Done.")

    assert start(P1).state == OperationState.RUNNING
