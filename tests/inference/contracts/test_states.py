"""Worker phases move as the diagram says."""

from __future__ import annotations

import pytest

from inference.contracts.states import HOLDS_DEVICES, STARTING_UP, TERMINAL, WORKER_MOVES, WorkerPhase, may_move


def test_every_phase_has_its_moves() -> None:
    assert set(WORKER_MOVES) == set(WorkerPhase)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WorkerPhase.ASSIGNED, WorkerPhase.STARTING),
        (WorkerPhase.STARTING, WorkerPhase.LOADING),
        (WorkerPhase.LOADING, WorkerPhase.READY),
        (WorkerPhase.READY, WorkerPhase.DRAINING),
        (WorkerPhase.DRAINING, WorkerPhase.READY),
        (WorkerPhase.DRAINING, WorkerPhase.STOPPING),
        (WorkerPhase.STOPPING, WorkerPhase.STOPPED),
        (WorkerPhase.LOADING, WorkerPhase.BACKOFF),
        (WorkerPhase.BACKOFF, WorkerPhase.STARTING),
        (WorkerPhase.BACKOFF, WorkerPhase.FAILED),
        (WorkerPhase.FAILED, WorkerPhase.STARTING),
    ],
)
def test_the_drawn_moves_are_legal(old: WorkerPhase, new: WorkerPhase) -> None:
    assert may_move(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (WorkerPhase.STOPPED, WorkerPhase.READY),
        (WorkerPhase.FAILED, WorkerPhase.READY),
        (WorkerPhase.ASSIGNED, WorkerPhase.READY),
        (WorkerPhase.STOPPING, WorkerPhase.READY),
    ],
)
def test_a_process_does_not_come_back_to_life(old: WorkerPhase, new: WorkerPhase) -> None:
    assert not may_move(old, new)


def test_a_silent_node_may_come_back_with_anything_but_an_assignment() -> None:
    assert {phase for phase in WorkerPhase if not may_move(WorkerPhase.UNKNOWN, phase)} == {WorkerPhase.ASSIGNED}


def test_an_unknown_worker_counts_as_holding_its_devices() -> None:
    assert WorkerPhase.UNKNOWN in HOLDS_DEVICES
    assert not HOLDS_DEVICES & TERMINAL
    assert STARTING_UP <= HOLDS_DEVICES
