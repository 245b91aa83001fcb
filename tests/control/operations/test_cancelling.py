"""Claims about taking operations back."""

from __future__ import annotations

from uuid import uuid4

import pytest

from controlplane.audit.models import AuditEntry
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_cancel, operation_finish
from inference.contracts.states import OperationKind, OperationState
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import P1, start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def test_what_was_wanted_before_is_wanted_again(wanted: Wanted) -> None:
    operation = operation_cancel(start().pk, by="bob", reason="wrong pool")

    assert (operation.state, operation.cancelled_by) == (OperationState.CANCELLED, "bob")
    assert operation.outcome == "Cancelled by bob: wrong pool. 1 replica is wanted again."
    assert wanted.cancelled == [operation.title]
    assert not operation.targets.get().held


def test_what_waits_has_nothing_to_put_back(wanted: Wanted) -> None:
    start(kind=OperationKind.ROLL_OUT)
    waiting = start(kind=OperationKind.DELETE, on_conflict=OnConflict.QUEUE)

    cancelled = operation_cancel(waiting.pk, by="bob")
    assert (cancelled.state, cancelled.outcome) == (OperationState.CANCELLED, "Cancelled by bob. It had not begun.")
    assert cancelled.started_at is None
    assert wanted.cancelled == []


def test_a_kind_that_cannot_be_taken_back_runs_on() -> None:
    operation = start(kind=OperationKind.DELETE, title="Delete chat")
    with pytest.raises(Conflict, match="can't be taken back once it runs") as refused:
        operation_cancel(operation.pk, by="bob")

    assert refused.value.code == "not_cancellable"
    assert Operation.objects.get(pk=operation.pk).state == OperationState.RUNNING


def test_what_ended_is_not_cancelled_any_more() -> None:
    operation = start()
    operation_finish(operation, OperationState.SUCCEEDED, "2 of 2 ready.")
    with pytest.raises(Conflict) as refused:
        operation_cancel(operation.pk, by="bob")

    assert refused.value.code == "operation_ended"
    assert refused.value.current == {"state": "succeeded", "outcome": "2 of 2 ready."}


def test_a_refused_cancel_changes_nothing(wanted: Wanted) -> None:
    operation = start()
    wanted.refuse = Conflict("chat is being deleted.", code="deleting")
    with pytest.raises(Conflict, match="being deleted"):
        operation_cancel(operation.pk, by="bob")

    assert Operation.objects.get(pk=operation.pk).state == OperationState.RUNNING
    assert not AuditEntry.objects.exists()


def test_the_audit_says_what_was_cancelled_and_why() -> None:
    operation = operation_cancel(start().pk, by="bob", reason="wrong pool")

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_id, entry.reason) == ("operation.cancel", str(operation.pk), "wrong pool")
    assert (entry.before, entry.after["state"]) == ({"state": "running"}, "cancelled")


def test_what_is_not_there_and_what_is_too_long_is_refused() -> None:
    with pytest.raises(NotFound):
        operation_cancel(uuid4(), by="bob")
    with pytest.raises(Invalid, match="at most 500"):
        operation_cancel(start(P1).pk, by="bob", reason="x" * 501)
