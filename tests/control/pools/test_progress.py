"""Claims about how far an operator's intent is said to have come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.operations.standing import Standing
from controlplane.pools.news import TOLD_ONE_BY_ONE
from controlplane.pools.planning.snapshot import PoolSeen, Snapshot, WorkerSeen
from controlplane.pools.progress import (
    Progress,
    deleting_progress,
    revision_progress,
    scaling_progress,
    worker_progress,
)
from inference.contracts.states import OperationState, Role, StepState, WorkerDesired, WorkerPhase
from tests.control.pools.planning.fleets import NOW, of_every_state, worker

DECODE = PoolSeen(pool_id="decode", role=Role.DECODE, replicas=2)
LONG_AGO = NOW - timedelta(hours=1)


def scaling(*workers: WorkerSeen, replicas: int = 2, unmet: tuple[str, ...] = (), conflict: str = "") -> Progress:
    pool = replace(DECODE, replicas=replicas)
    return scaling_progress([pool], workers, unmet=unmet, since=LONG_AGO, conflict=conflict)


def test_it_succeeds_when_exactly_the_wanted_workers_are_ready() -> None:
    progress = scaling(worker("decode-1"), worker("decode-2"))

    assert (progress.state, progress.share) == (OperationState.SUCCEEDED, 1.0)
    assert progress.outcome == "2 decode workers ready."


def test_it_goes_on_while_somebody_is_leaving() -> None:
    progress = scaling(
        worker("decode-1"), worker("decode-2", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN, busy=3), replicas=1
    )

    assert progress.state == OperationState.RUNNING
    assert progress.share == 0.5
    assert Standing("leave:decode-2", "decode-2 is draining: 3 answers left") in progress.steps


def test_the_share_follows_the_phases() -> None:
    shares = [
        scaling(worker("decode-1", phase), replicas=1).share
        for phase in (WorkerPhase.ASSIGNED, WorkerPhase.STARTING, WorkerPhase.LOADING, WorkerPhase.READY)
    ]

    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_it_fails_with_the_reason_when_what_is_left_has_failed() -> None:
    failed = replace(worker("decode-2", WorkerPhase.FAILED), reason="no such directory")

    assert scaling(worker("decode-1", WorkerPhase.LOADING), failed).state == OperationState.RUNNING
    progress = scaling(worker("decode-1"), failed)
    assert (progress.state, progress.outcome) == (OperationState.FAILED, "decode-2 failed: no such directory")


def test_a_failed_worker_that_leaves_fails_nothing() -> None:
    leaving = worker("decode-2", WorkerPhase.FAILED, desired=WorkerDesired.STOP)

    assert scaling(worker("decode-1"), leaving, replicas=1).state == OperationState.RUNNING


def test_a_refused_placement_is_a_step_and_keeps_it_running() -> None:
    progress = scaling(worker("decode-1"), unmet=("decode needs 1 free GPU: 2 GPUs, all taken",))

    assert progress.state == OperationState.RUNNING
    assert progress.steps[0].text == "decode needs 1 free GPU: 2 GPUs, all taken"


def test_a_worker_out_of_sight_that_was_replaced_holds_nothing_up() -> None:
    progress = scaling(worker("decode-1"), worker("decode-2"), worker("decode-3", WorkerPhase.UNKNOWN))

    assert progress.state == OperationState.SUCCEEDED


def test_ready_workers_that_cannot_pair_fail_it() -> None:
    progress = scaling(worker("decode-1"), worker("decode-2"), conflict="fingerprints differ")

    assert (progress.state, progress.outcome) == (OperationState.FAILED, "fingerprints differ")


def test_news_from_before_the_operation_is_not_told() -> None:
    progress = scaling_progress([DECODE], [worker("decode-1")], unmet=(), since=NOW)

    assert progress.steps == ()


@pytest.mark.parametrize(("left", "share"), [(2, 0.0), (1, 0.5), (0, 1.0)])
def test_deleting_counts_who_is_left(left: int, share: float) -> None:
    workers = [worker(f"decode-{n}", desired=WorkerDesired.DRAIN) for n in range(left)]
    progress = deleting_progress([DECODE], workers, since=LONG_AGO)

    assert progress.share == share
    assert (progress.state == OperationState.SUCCEEDED) == (left == 0)


@of_every_state
def test_of_every_state_there_is_a_share_and_a_line_for_everybody(snapshot: Snapshot) -> None:
    progress = scaling_progress(snapshot.pools, snapshot.workers, unmet=(), since=LONG_AGO)

    assert 0.0 <= progress.share <= 1.0
    if progress.state == OperationState.SUCCEEDED:
        assert progress.share == 1.0
    told = {step.key.split(":")[1] for step in progress.steps}
    assert told == {worker.worker_id for worker in snapshot.workers}


def test_a_pool_that_is_emptied_says_that_nobody_is_left() -> None:
    progress = scaling(replicas=0)

    assert (progress.state, progress.outcome) == (OperationState.SUCCEEDED, "All workers are gone.")


def test_a_worker_that_dies_is_a_failed_step_for_each_death_and_one_that_goes_on() -> None:
    """F11: the count and the reason stay visible after it has come up."""
    dying = worker("decode-1", WorkerPhase.BACKOFF, attempts=2, reason="out of memory")
    told = {step.key: step for step in scaling(dying, replicas=1).steps}

    assert told["died:decode-1:2"].state == StepState.FAILED
    assert told["died:decode-1:2"].cause == "out of memory"
    assert told["come:decode-1"].state == StepState.RUNNING


def test_a_worker_in_its_old_role_is_not_up() -> None:
    flipping = worker("decode-2", role=Role.PREFILL)
    progress = scaling(worker("decode-1"), flipping)

    assert progress.state == OperationState.RUNNING
    assert Standing("come:decode-2", "decode-2 still runs as prefill and is to become decode") in progress.steps


def test_a_role_that_is_not_known_is_not_the_right_one() -> None:
    assert scaling(worker("decode-1", role=None), replicas=1).state == OperationState.RUNNING


def test_a_prefill_worker_counts_down_what_it_holds_for_others() -> None:
    """F09: it leaves only after its KV was fetched."""
    holding = worker("decode-1", WorkerPhase.DRAINING, desired=WorkerDesired.DRAIN, busy=1, handoffs=2)

    assert scaling(holding, replicas=0).steps[0].text == "decode-1 is draining: 1 answer and 2 hand-offs left"


def test_many_workers_are_told_in_numbers() -> None:
    coming = [worker(f"decode-{n}", WorkerPhase.LOADING) for n in range(TOLD_ONE_BY_ONE + 1)]
    failed = worker("decode-99", WorkerPhase.FAILED, reason="no such model")
    steps = scaling(*coming, failed, replicas=len(coming) + 1).steps

    assert [step.text for step in steps] == [
        "decode-99 failed: no such model",
        f"workers: {len(coming)} loading, 1 failed",
    ]


@pytest.mark.parametrize(
    ("seen", "state", "outcome"),
    [
        (None, OperationState.FAILED, "decode-1 is gone."),
        (worker("decode-1", WorkerPhase.LOADING), OperationState.RUNNING, ""),
        (worker("decode-1"), OperationState.SUCCEEDED, "done"),
        (worker("decode-1", WorkerPhase.FAILED, reason="no."), OperationState.FAILED, "decode-1 failed: no."),
        (
            worker("decode-1", desired=WorkerDesired.DRAIN),
            OperationState.FAILED,
            "decode-1 is to go: something else was wanted of it.",
        ),
    ],
)
def test_of_one_worker(seen: WorkerSeen | None, state: OperationState, outcome: str) -> None:
    progress = worker_progress(seen, "decode-1", Role.DECODE, since=LONG_AGO, done="done")

    assert (progress.state, progress.outcome) == (state, outcome)


def test_a_revision_is_there_when_all_run_it_and_none_of_another_is_left() -> None:
    new = [worker("decode-1", revision=2), worker("decode-2", revision=2)]
    old = worker("decode-3", revision=1, desired=WorkerDesired.DRAIN)

    assert revision_progress([DECODE], [*new, old], 2, since=LONG_AGO).state == OperationState.RUNNING
    assert revision_progress([DECODE], new[:1], 2, since=LONG_AGO).share == 0.5
    assert revision_progress([DECODE], new, 2, since=LONG_AGO).state == OperationState.SUCCEEDED
