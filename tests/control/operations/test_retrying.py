"""Claims about trying again."""

from __future__ import annotations

import pytest

from controlplane.audit.models import AuditEntry
from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_cancel, operation_finish, operation_retry
from inference.contracts.states import OperationKind, OperationState
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import P1, P2, start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def failed(wanted: Wanted) -> Operation:
    operation = start(P2, P1)
    operation_finish(operation, OperationState.FAILED, "No device is free.")
    return operation


def test_a_new_operation_asks_for_the_same_and_names_the_one_before(failed: Operation, wanted: Wanted) -> None:
    again = operation_retry(failed.pk, by="bob", reason="a node joined")

    assert (again.state, again.retry_of, again.request) == (OperationState.RUNNING, failed, failed.request)
    assert (again.requested_by, again.reason, again.before, again.after) == (
        *("bob", "a node joined"),
        *("1 replica", "2 replicas"),
    )
    assert [target.name for target in again.targets.all()] == ["chat/prefill", "chat/decode"]
    assert wanted.began == [failed.title, failed.title]
    failed.refresh_from_db()
    assert failed.state == OperationState.FAILED, "what happened stays as it was"


def test_what_was_cancelled_can_be_tried_again() -> None:
    cancelled = operation_cancel(start().pk, by="ada")

    assert operation_retry(cancelled.pk, by="ada").state == OperationState.RUNNING


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.SUPERSEDED])
def test_what_is_there_or_was_replaced_cannot(state: OperationState) -> None:
    operation = start()
    operation_finish(operation, state, "Over.")
    with pytest.raises(Conflict, match=f"is {state} and can't be tried again") as refused:
        operation_retry(operation.pk, by="bob")
    assert refused.value.code == "not_retryable"


def test_what_runs_cannot() -> None:
    with pytest.raises(Conflict, match="is running and can't be tried again"):
        operation_retry(start().pk, by="bob")


def test_a_kind_that_cannot_be_begun_again_is_not() -> None:
    operation = start(kind=OperationKind.ROLL_OUT)
    operation_finish(operation, OperationState.FAILED, "Rolled back.")
    with pytest.raises(Conflict, match="not every kind"):
        operation_retry(operation.pk, by="bob")


def test_a_retry_meets_what_runs_there_now(failed: Operation) -> None:
    start(P1, kind=OperationKind.ROLL_OUT)

    with pytest.raises(Conflict) as refused:
        operation_retry(failed.pk, by="bob")
    assert refused.value.code == "operation_conflict"
    assert operation_retry(failed.pk, by="bob", on_conflict=OnConflict.QUEUE).state == OperationState.QUEUED


def test_a_refused_retry_leaves_no_record(failed: Operation, wanted: Wanted) -> None:
    wanted.refuse = Invalid("2 workers need as many devices, and the fleet has 1.")
    with pytest.raises(Invalid):
        operation_retry(failed.pk, by="bob")

    assert Operation.objects.count() == 1
    assert not AuditEntry.objects.exists()


def test_the_audit_says_what_was_tried_again(failed: Operation) -> None:
    again = operation_retry(failed.pk, by="bob", reason="a node joined")

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_id, entry.reason) == ("operation.retry", str(failed.pk), "a node joined")
    assert entry.after == {"operation": str(again.pk), "state": "running"}
