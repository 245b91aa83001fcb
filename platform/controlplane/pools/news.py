"""What workers are doing, in words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.operations.standing import Standing
from controlplane.pools.planning.snapshot import WorkerSeen
from inference.contracts.states import Role, StepState, WorkerDesired, WorkerPhase

#: With more workers under way than this, only failures are told one by one.
TOLD_ONE_BY_ONE = 24


def workers_standing(
    workers: Sequence[WorkerSeen], roles: Mapping[str, Role], *, since: datetime, gone: Sequence[WorkerSeen] = ()
) -> tuple[Standing, ...]:
    """How each worker that is under way stands; those that were up before `since` and stay are not told.

    roles: of the pools, by id. gone: workers that have just left.
    """
    moving = [each for each in workers if _is_news(each, roles.get(each.pool_id), since)]
    if len(moving) + len(gone) > TOLD_ONE_BY_ONE:
        return _in_numbers(moving, roles, gone)
    left = (Standing(f"leave:{each.worker_id}", f"{each.name} is gone", StepState.DONE) for each in gone)
    return (*left, *(standing for each in moving for standing in _standing(each, roles[each.pool_id])))


def _is_news(worker: WorkerSeen, role: Role | None, since: datetime) -> bool:
    steady = worker.phase == WorkerPhase.READY and worker.desired == WorkerDesired.RUN and worker.role == role
    return role is not None and (not steady or worker.phase_since >= since)


def _standing(worker: WorkerSeen, role: Role) -> Iterable[Standing]:
    text = worker_news(worker, role)
    if worker.desired != WorkerDesired.RUN:
        yield Standing(f"leave:{worker.worker_id}", text)
        return
    key = f"come:{worker.worker_id}"
    match worker.phase:
        case WorkerPhase.FAILED:
            yield Standing(key, text, StepState.FAILED, worker.reason)
        case WorkerPhase.READY if worker.role == role:
            yield Standing(key, text, StepState.DONE)
        case WorkerPhase.BACKOFF:
            yield Standing(f"died:{worker.worker_id}:{worker.attempts}", text, StepState.FAILED, worker.reason)
            yield Standing(key, f"{worker.name} waits to be started again")
        case _:
            yield Standing(key, text)


def _in_numbers(
    moving: Sequence[WorkerSeen], roles: Mapping[str, Role], gone: Sequence[WorkerSeen]
) -> tuple[Standing, ...]:
    """One step for those that come, one for those that leave, and the first failures."""
    coming = [each for each in moving if each.desired == WorkerDesired.RUN]
    leaving = Counter(each.phase for each in moving if each.desired != WorkerDesired.RUN)
    phases = Counter(each.phase for each in coming)
    failed = [each for each in coming if each.phase == WorkerPhase.FAILED][:TOLD_ONE_BY_ONE]
    steps = [standing for each in failed for standing in _standing(each, roles[each.pool_id])]
    if coming:
        done = phases[WorkerPhase.READY] == len(coming)
        steps.append(Standing("come", f"workers: {_by_phase(phases)}", StepState.DONE if done else StepState.RUNNING))
    if leaving:
        steps.append(Standing("leave", f"workers on their way out: {_by_phase(leaving)}"))
    elif gone:
        steps.append(Standing("leave", "the last workers on their way out are gone", StepState.DONE))
    return tuple(steps)


def _by_phase(phases: Mapping[WorkerPhase, int]) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in phases.items())


def worker_news(worker: WorkerSeen, role: Role) -> str:
    """What one worker is doing, for people."""
    return f"{worker.name} {_leaving(worker, role) if worker.desired != WorkerDesired.RUN else _coming(worker, role)}"


def _coming(worker: WorkerSeen, role: Role) -> str:
    flips = worker.role is not None and worker.role != role
    match worker.phase:
        case WorkerPhase.READY if flips:
            return f"still runs as {worker.role} and is to become {role}"
        case WorkerPhase.DRAINING if flips:
            return f"finishes what it has as {worker.role}{_left(worker, worker.role or role)}"
        case WorkerPhase.SWITCHING:
            return f"switches to {role} with its weights loaded"
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
            return f"finishes what it has{_left(worker, role)}"
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
    """The countdown. A prefill worker also has to keep KV until it was handed over."""
    parts = []
    if worker.busy:
        thing = "prompt" if role == Role.PREFILL else "answer"
        parts.append(f"{worker.busy} {thing}{'' if worker.busy == 1 else 's'}")
    if worker.handoffs:
        parts.append(f"{worker.handoffs} hand-off{'' if worker.handoffs == 1 else 's'}")
    return f": {' and '.join(parts)} left" if parts else ""
