"""How far an operator's intent has come, as a pure function of what is wanted and what is seen.

Nothing is counted up on the way: progress is read from the workers as they are now, so it survives restarts of
everything and falls when a worker dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.operations.standing import Standing
from controlplane.pools.news import worker_news, workers_standing
from controlplane.pools.planning.snapshot import PoolSeen, WorkerSeen
from inference.contracts.states import OperationState, Role, WorkerDesired, WorkerPhase

#: How much of the way to READY each phase is; phases that are not named here are none of it.
_SHARE = {
    WorkerPhase.ASSIGNED: 0.1,
    WorkerPhase.BACKOFF: 0.1,
    WorkerPhase.STARTING: 0.2,
    WorkerPhase.LOADING: 0.5,
    WorkerPhase.DRAINING: 0.5,
    WorkerPhase.SWITCHING: 0.8,
    WorkerPhase.READY: 1.0,
}

_NONE_LEFT = "All workers are gone."

_SETTLED = frozenset({WorkerPhase.READY, WorkerPhase.FAILED})


@dataclass(frozen=True, slots=True)
class Progress:
    """share: 0..1. steps: how each thing that is under way stands."""

    share: float
    steps: tuple[Standing, ...] = ()
    state: OperationState = OperationState.RUNNING
    outcome: str = ""


def scaling_progress(
    pools: Sequence[PoolSeen],
    workers: Sequence[WorkerSeen],
    *,
    unmet: Sequence[str],
    since: datetime,
    gone: Sequence[WorkerSeen] = (),
    conflict: str = "",
) -> Progress:
    """Progress towards the replicas of `pools`, all of whose workers are given.

    It succeeds when exactly the wanted workers are ready and nobody is leaving; it fails when what is left to come up
    has failed. unmet: why wanted workers could not be placed. since: older news is not told. gone: those that have just
    left. conflict: why the workers can't serve although all are ready; makes it fail.
    """
    roles = {pool.pool_id: pool.role for pool in pools}
    wanted = sum(pool.replicas for pool in pools)
    places = [each for each in workers if each.desired == WorkerDesired.RUN and each.phase != WorkerPhase.UNKNOWN]
    leaving = [each for each in workers if each.desired != WorkerDesired.RUN]
    shares = sorted((come_up_share(each, roles[each.pool_id]) for each in places), reverse=True)
    share = sum(shares[:wanted]) / (wanted + len(leaving)) if wanted + len(leaving) else 1.0
    steps = (*_waiting(unmet), *workers_standing(workers, roles, since=since, gone=gone))

    ready = [each for each in places if is_up(each, roles[each.pool_id])]
    failed = [each for each in places if each.phase == WorkerPhase.FAILED]
    if not leaving and len(places) == len(ready) and all(_count(pool, ready) == pool.replicas for pool in pools):
        if conflict:
            return Progress(share, steps, OperationState.FAILED, conflict)
        return Progress(1.0, steps, OperationState.SUCCEEDED, f"{_summary(pools)} ready." if wanted else _NONE_LEFT)
    if failed and not leaving and all(each.phase in _SETTLED for each in places):
        outcome = "; ".join(worker_news(each, roles[each.pool_id]) for each in failed)
        return Progress(share, steps, OperationState.FAILED, outcome)
    return Progress(share, steps)


def deleting_progress(
    pools: Sequence[PoolSeen], workers: Sequence[WorkerSeen], *, since: datetime, gone: Sequence[WorkerSeen] = ()
) -> Progress:
    """Progress towards no workers at all."""
    roles = {pool.pool_id: pool.role for pool in pools}
    steps = workers_standing(workers, roles, since=since, gone=gone)
    if not workers:
        return Progress(1.0, steps, OperationState.SUCCEEDED, _NONE_LEFT)
    total = max(len(workers), sum(pool.replicas for pool in pools))
    return Progress(1 - len(workers) / total, steps)


def worker_progress(worker: WorkerSeen | None, name: str, role: Role, *, since: datetime, done: str) -> Progress:
    """Progress of one worker towards being up in `role`. worker: None when it is gone. done: the outcome then."""
    if worker is None:
        return Progress(0.0, (), OperationState.FAILED, f"{name} is gone.")
    steps = workers_standing([worker], {worker.pool_id: role}, since=since)
    if worker.desired != WorkerDesired.RUN:
        return Progress(0.0, steps, OperationState.FAILED, f"{worker.name} is to go: something else was wanted of it.")
    if worker.phase == WorkerPhase.FAILED:
        return Progress(0.0, steps, OperationState.FAILED, f"{worker_news(worker, role)}.".replace("..", "."))
    if is_up(worker, role):
        return Progress(1.0, steps, OperationState.SUCCEEDED, done)
    return Progress(come_up_share(worker, role), steps)


def revision_progress(
    pools: Sequence[PoolSeen],
    workers: Sequence[WorkerSeen],
    revision: int,
    *,
    since: datetime,
    gone: Sequence[WorkerSeen] = (),
) -> Progress:
    """Progress towards all workers of `pools` being up with `revision`, and none of another one left."""
    roles = {pool.pool_id: pool.role for pool in pools}
    wanted = sum(pool.replicas for pool in pools)
    ours = [each for each in workers if each.revision == revision and each.desired == WorkerDesired.RUN]
    up = [each for each in ours if is_up(each, roles[each.pool_id])]
    steps = workers_standing(workers, roles, since=since, gone=gone)
    others = [each for each in workers if each not in ours and each.phase != WorkerPhase.UNKNOWN]
    if not others and all(_count(pool, up) == pool.replicas for pool in pools):
        return Progress(1.0, steps, OperationState.SUCCEEDED, f"Revision {revision} runs everywhere.")
    return Progress(min(1.0, len(up) / wanted) if wanted else 1.0, steps)


def is_up(worker: WorkerSeen, role: Role) -> bool:
    """Whether it is ready to do what `role` does."""
    return worker.phase == WorkerPhase.READY and worker.role == role


def come_up_share(worker: WorkerSeen, role: Role) -> float:
    """How much of its way to `is_up` a worker has made, 0..1. One that is still in its old role has all of it ahead."""
    if worker.phase == WorkerPhase.READY and not is_up(worker, role):
        return 0.2
    return _SHARE.get(worker.phase, 0.0)


def _waiting(unmet: Sequence[str]) -> tuple[Standing, ...]:
    return tuple(Standing(f"wait:{number}", text) for number, text in enumerate(unmet))


def _count(pool: PoolSeen, workers: Sequence[WorkerSeen]) -> int:
    return sum(worker.pool_id == pool.pool_id for worker in workers)


def _summary(pools: Sequence[PoolSeen]) -> str:
    """ "1 prefill and 2 decode workers"."""
    counts = " and ".join(f"{pool.replicas} {pool.role}" for pool in pools)
    return f"{counts} {'worker' if all(pool.replicas == 1 for pool in pools) else 'workers'}"
