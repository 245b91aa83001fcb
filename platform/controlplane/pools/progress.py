"""How far an operator's intent has come, as a pure function of what is wanted and what is seen.

Nothing is counted up on the way: progress is read from the workers as they are now, so it survives restarts of
everything and falls when a worker dies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.pools.plan import PoolSeen, WorkerSeen
from inference.contracts.states import OperationState, Role, WorkerDesired, WorkerPhase

#: How much of the way to READY each phase is; phases that are not named here are none of it.
_SHARE = {
    WorkerPhase.ASSIGNED: 0.1,
    WorkerPhase.BACKOFF: 0.1,
    WorkerPhase.STARTING: 0.2,
    WorkerPhase.LOADING: 0.5,
    WorkerPhase.READY: 1.0,
}

_NONE_LEFT = "All workers are gone."

_SETTLED = frozenset({WorkerPhase.READY, WorkerPhase.FAILED})


@dataclass(frozen=True, slots=True)
class Progress:
    """share: 0..1. steps: what is going on now, in words, one text for each worker concerned."""

    share: float
    steps: tuple[str, ...]
    state: OperationState = OperationState.RUNNING
    outcome: str = ""


def scaling_progress(
    pools: Sequence[PoolSeen],
    workers: Sequence[WorkerSeen],
    *,
    unmet: Sequence[str],
    since: datetime,
    conflict: str = "",
) -> Progress:
    """Progress towards the replicas of `pools`, all of whose workers are given.

    It succeeds when exactly the wanted workers are ready and nobody is leaving; it fails when what is left to come up
    has failed. unmet: why wanted workers could not be placed. since: older news is not told. conflict: why the workers
    can't serve although all are ready; makes it fail.
    """
    wanted = sum(pool.replicas for pool in pools)
    places = [each for each in workers if each.desired == WorkerDesired.RUN and each.phase != WorkerPhase.UNKNOWN]
    leaving = [each for each in workers if each.desired != WorkerDesired.RUN]
    shares = sorted((_SHARE.get(each.phase, 0.0) for each in places), reverse=True)
    share = sum(shares[:wanted]) / (wanted + len(leaving)) if wanted + len(leaving) else 1.0
    told = [each for each in workers if each.phase_since >= since or each.desired != WorkerDesired.RUN]
    steps = (*unmet, *(_news(each, pools) for each in told))

    ready = [each for each in places if each.phase == WorkerPhase.READY]
    failed = [each for each in places if each.phase == WorkerPhase.FAILED]
    if not leaving and len(places) == len(ready) and all(_count(pool, ready) == pool.replicas for pool in pools):
        if conflict:
            return Progress(share, steps, OperationState.FAILED, conflict)
        return Progress(1.0, steps, OperationState.SUCCEEDED, f"{_summary(pools)} ready." if wanted else _NONE_LEFT)
    if failed and not leaving and all(each.phase in _SETTLED for each in places):
        return Progress(share, steps, OperationState.FAILED, "; ".join(_news(each, pools) for each in failed))
    return Progress(share, steps)


def deleting_progress(pools: Sequence[PoolSeen], workers: Sequence[WorkerSeen]) -> Progress:
    """Progress towards no workers at all."""
    steps = tuple(_news(each, pools) for each in workers)
    if not workers:
        return Progress(1.0, steps, OperationState.SUCCEEDED, _NONE_LEFT)
    total = max(len(workers), sum(pool.replicas for pool in pools))
    return Progress(1 - len(workers) / total, steps)


def _count(pool: PoolSeen, workers: Sequence[WorkerSeen]) -> int:
    return sum(worker.pool_id == pool.pool_id for worker in workers)


def _summary(pools: Sequence[PoolSeen]) -> str:
    """ "1 prefill and 2 decode workers"."""
    counts = " and ".join(f"{pool.replicas} {pool.role}" for pool in pools)
    return f"{counts} {'worker' if all(pool.replicas == 1 for pool in pools) else 'workers'}"


def _news(worker: WorkerSeen, pools: Sequence[PoolSeen]) -> str:
    return worker_news(worker, next(pool.role for pool in pools if pool.pool_id == worker.pool_id))


def worker_news(worker: WorkerSeen, role: Role) -> str:
    """What one worker is doing, for people."""
    return f"{worker.name} {_leaving(worker, role) if worker.desired != WorkerDesired.RUN else _coming(worker)}"


def _coming(worker: WorkerSeen) -> str:
    match worker.phase:
        case WorkerPhase.ASSIGNED:
            return f"is assigned to {worker.node}"
        case WorkerPhase.STARTING:
            return "is starting" + (f" (attempt {worker.attempts})" if worker.attempts > 1 else "")
        case WorkerPhase.LOADING:
            return "is loading the model"
        case WorkerPhase.READY:
            return "is ready"
        case WorkerPhase.BACKOFF:
            return f"died after start {worker.attempts} and is started again: {worker.reason or 'no reason known'}"
        case WorkerPhase.FAILED:
            return f"failed: {worker.reason or 'no reason known'}"
        case WorkerPhase.UNKNOWN:
            return f"is out of sight: {worker.node} is silent"
        case WorkerPhase.DRAINING:
            return "is taken back into service"
        case WorkerPhase.SWITCHING:
            return "is switching its role"
        case WorkerPhase.STOPPING | WorkerPhase.STOPPED:
            return f"was stopped by its agent on {worker.node}"


def _leaving(worker: WorkerSeen, role: Role) -> str:
    match worker.phase:
        case WorkerPhase.UNKNOWN:
            return f"leaves when {worker.node} is heard again"
        case WorkerPhase.STOPPED:
            return "is gone"
        case WorkerPhase.READY | WorkerPhase.DRAINING if worker.desired == WorkerDesired.DRAIN:
            return f"is draining{_left(worker, role)}"
        case _:
            return "is stopping"


def _left(worker: WorkerSeen, role: Role) -> str:
    if not worker.busy:
        return ""
    thing = "prompt" if role == Role.PREFILL else "answer"
    return f": {worker.busy} {thing} left" if worker.busy == 1 else f": {worker.busy} {thing}s left"
