"""Whatever happens to operations, in whatever order: the rules that must always hold."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation, OperationStep, OperationTarget
from controlplane.operations.services import (
    OnConflict,
    operation_cancel,
    operation_finish,
    operation_retry,
    operation_start,
    operation_step,
    operations_dequeue,
    operations_sweep,
)
from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState, StepState
from tests.control.conftest import Clock
from tests.control.operations.conftest import Wanted
from tests.control.operations.records import CHAT, P1, P2

ENDED = frozenset(OperationState) - OPERATION_OPEN

#: As the docstring of `OperationState` draws them.
MOVES = {
    None: OPERATION_OPEN,
    OperationState.QUEUED: ENDED - {OperationState.SUCCEEDED} | {OperationState.RUNNING},
    OperationState.RUNNING: ENDED,
}


@dataclass
class Life:
    """One run of events against the services, checked after each."""

    now: Clock
    wanted: Wanted
    states: dict[Operation, OperationState] = field(default_factory=dict)

    def check(self) -> None:
        holders = Counter(OperationTarget.objects.filter(held=True).values_list("kind", "target_id"))
        assert all(number == 1 for number in holders.values()), holders
        for operation in Operation.objects.prefetch_related("targets"):
            state, held = OperationState(operation.state), [target.held for target in operation.targets.all()]
            assert all(held) if state == OperationState.RUNNING else not any(held), (state, held)
            before = self.states.get(operation)
            assert before == state or state in MOVES.get(before, frozenset()), (before, state)
            self.states[operation] = state
        going_on = OperationStep.objects.filter(state=StepState.RUNNING).exclude(operation__state="running")
        assert not going_on.exists()
        assert len(self.wanted.began) == Operation.objects.exclude(started_at=None).count()

    def do(self, event: tuple[object, ...]) -> None:
        name, *arguments = event
        with contextlib.suppress(Conflict, Invalid):  # refusals; any other error is a bug
            getattr(self, str(name))(*arguments)

    # -- what may happen

    def start(self, kind: OperationKind, targets: frozenset[int], may_wait: bool) -> None:
        operation = operation_start(
            kind=kind,
            targets=[(P1, P2, CHAT)[number] for number in targets],
            title=f"{kind} {len(self.states)}",
            requested_by="ada",
            request={},
            on_conflict=OnConflict.QUEUE if may_wait else OnConflict.REFUSE,
            supersede_all=kind == OperationKind.DELETE,
        )
        operation_step(operation, "drain", key="drain", state=StepState.RUNNING)

    def refuse(self, refuses: bool) -> None:
        """Whether what begins, or is taken back, is refused from now on."""
        self.wanted.refuse = Invalid("the fleet is full") if refuses else None

    def finish(self, number: int, state: OperationState) -> None:
        if running := Operation.objects.filter(state=OperationState.RUNNING):
            operation_finish(running[number % len(running)], state, "Over.")

    def cancel(self, number: int) -> None:
        if found := Operation.objects.all():
            operation_cancel(found[number % len(found)].pk, by="ada")

    def retry(self, number: int) -> None:
        if found := Operation.objects.all():
            operation_retry(found[number % len(found)].pk, by="ada", on_conflict=OnConflict.QUEUE)

    def sweep(self, later_s: float) -> None:
        self.now.advance(later_s)
        operations_sweep(now=self.now())

    def look(self) -> None:
        operations_dequeue()


NUMBERS = st.integers(0, 7)
EVENTS = st.one_of(
    st.tuples(
        st.just("start"),
        st.sampled_from([OperationKind.RESIZE, OperationKind.ROLL_OUT, OperationKind.ROLL_OUT, OperationKind.DELETE]),
        st.frozensets(st.integers(0, 2), min_size=1),
        st.booleans(),
    ),
    st.tuples(st.just("finish"), NUMBERS, st.sampled_from([OperationState.SUCCEEDED, OperationState.FAILED])),
    st.tuples(st.just("cancel"), NUMBERS),
    st.tuples(st.just("retry"), NUMBERS),
    st.tuples(st.just("sweep"), st.sampled_from([-3600, 5, 3600])),
    st.tuples(st.just("look")),
    st.tuples(st.just("refuse"), st.booleans()),
)


@pytest.mark.django_db
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENTS, min_size=5, max_size=25))
def test_at_every_moment_one_holder_per_target_and_no_move_off_the_diagram(
    events: list[tuple[object, ...]], now: Clock, wanted: Wanted
) -> None:
    wanted.began.clear()
    wanted.refuse = None
    with transaction.atomic():
        life = Life(now, wanted)
        for event in events:
            life.do(event)
            life.check()
        _everything_ends(life)
        transaction.set_rollback(True)


def _everything_ends(life: Life) -> None:
    """When all that runs finishes, all that waits has its turn: nothing waits for ever."""
    life.refuse(False)
    for _ in range(len(life.states) + 1):
        operations_dequeue()
        life.check()
        for operation in Operation.objects.filter(state=OperationState.RUNNING):
            operation_finish(operation, OperationState.SUCCEEDED, "Done.")
        life.check()
    assert not Operation.objects.filter(state__in=OPERATION_OPEN).exists()
