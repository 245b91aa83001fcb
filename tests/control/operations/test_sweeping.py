"""Claims about the sweep's look at what runs."""

from __future__ import annotations

import pytest

from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_finish, operations_advance
from controlplane.operations.workflows import Workflow, register
from inference.contracts.states import OperationKind, OperationState
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import P1, P2, start

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def order(wanted: Wanted) -> list[str]:
    """A workflow whose owner is asked to look at it; what was called, in order."""
    called: list[str] = []

    def advance(operation: Operation) -> None:
        called.append(f"advance {operation.title}")
        if operation.title == "broken":
            raise RuntimeError("a bug")
        if operation.title == "done":
            operation_finish(operation, OperationState.SUCCEEDED, "Done.")

    register(
        Workflow(
            OperationKind.FLIP,
            begin=wanted.begin,
            lock=lambda operation: called.append(f"lock {operation.title}"),
            advance=advance,
        )
    )
    return called


def test_owners_look_at_what_runs_after_taking_their_own_locks(order: list[str]) -> None:
    start(title="done", kind=OperationKind.FLIP)
    start(title="waits", kind=OperationKind.FLIP, on_conflict=OnConflict.QUEUE)
    start(P2, title="of a kind without advance")
    operations_advance()
    assert order == ["lock done", "advance done"]

    operations_advance()
    assert order == ["lock done", "advance done"], "what ended is left alone"


def test_an_error_in_one_does_not_keep_the_others_from_being_looked_at(order: list[str]) -> None:
    start(P1, title="broken", kind=OperationKind.FLIP)
    fine = start(P2, title="done", kind=OperationKind.FLIP)
    operations_advance()

    assert {"advance broken", "advance done"} <= set(order)
    assert Operation.objects.get(pk=fine.pk).state == OperationState.SUCCEEDED
