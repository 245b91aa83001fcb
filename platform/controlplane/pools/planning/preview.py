"""What an operation will do: plan, assume that all goes well, plan again, until there is nothing left to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.course import come_true, written
from controlplane.pools.planning.fitting import memory_warnings
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.revisions import pairs_of
from controlplane.pools.planning.scene import Scene, count
from controlplane.pools.planning.snapshot import DeviceSeen, Snapshot, WorkerSeen
from inference.contracts.states import NodePhase, Role, WorkerDesired, WorkerPhase
from inference.contracts.views.operations import OperationPreview, PreviewMoment

#: Longest course that is worked out, in plans. A full fleet is replaced a tenth at a time, in two plans each.
_ROUNDS = 64

#: Workers of one sentence that are named; of more, only the number is told.
_NAMED = 3


def preview(snapshot: Snapshot) -> OperationPreview:
    """The course from `snapshot`, in which what is asked for is already what is wanted."""
    course = _Course(snapshot)
    for _ in range(_ROUNDS):
        if not course.step():
            break
    else:
        course.warnings.append(f"It goes on after this: only the first {_ROUNDS} steps were worked out.")
    return course.told()


def preview_of_restart(snapshot: Snapshot, worker_id: str, *, drains: bool) -> OperationPreview:
    """The course while just this worker of `snapshot` starts anew, on the devices that it has. drains: it runs, and
    first finishes what it has."""
    worker = next(each for each in snapshot.workers if each.worker_id == worker_id)
    course = _Course(snapshot)
    course.restart(worker, "drain" if drains else "start")
    place = f"{worker.name} on {_places(snapshot)[worker_id]}"
    return msgspec.structs.replace(course.told(), stop=(place,) if drains else (), start=(place,))


@dataclass(frozen=True, slots=True)
class _Moment:
    """pair: workers of one revision take requests in every pool that shall have any."""

    told: PreviewMoment
    pair: bool


class _Course:
    """The steps so far. `state` is where they have led."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.warnings: list[str] = []
        self._first = self._state = snapshot
        self._start: list[str] = []
        self._stop: dict[str, str] = {}
        self._flip: list[str] = []
        self._unmet: tuple[str, ...] = ()
        self._moments = [self._moment("now")]

    def step(self) -> bool:
        """One plan and its outcome; whether there was anything to do."""
        before, made = self._state, plan(self._state)
        self._unmet = tuple(dict.fromkeys(unmet.reason for unmet in (*made.refused, *made.wait)))
        if made.acts:
            self._state = written(before, made)
            self._note(made, before)
            self._moments.append(self._moment(_sentence(made, before, self._state)))
        planned = self._state
        self._state = come_true(planned)
        if self._state.workers == planned.workers:
            return made.acts
        self._moments.append(self._moment(_outcome(planned, self._state)))
        return True

    def restart(self, worker: WorkerSeen, verb: str) -> None:
        """Down and up again. Nothing is planned: its pool shall have as many workers as before."""
        role = next(pool.role for pool in self._state.pools if pool.pool_id == worker.pool_id)
        down = replace(worker, desired=WorkerDesired.RUN, phase=WorkerPhase.ASSIGNED)
        for after, text in (
            (down, f"{verb} {worker.name}"),
            (replace(down, phase=WorkerPhase.READY, role=role), f"{worker.name} ready"),
        ):
            workers = (after if each.worker_id == worker.worker_id else each for each in self._state.workers)
            self._state = replace(self._state, workers=tuple(workers))
            self._moments.append(self._moment(text))

    def _note(self, made: Plan, before: Snapshot) -> None:
        old = {worker.worker_id: worker for worker in before.workers}
        roles = {pool.pool_id: pool.role for pool in before.pools}
        places = _places(self._state)
        for worker in self._state.workers:
            if worker.worker_id not in old:
                self._start.append(f"{worker.name} on {places[worker.worker_id]}")
        self._start += [
            f"{old[move.worker_id].name} on {places[move.worker_id]}, whose drain is cancelled" for move in made.undrain
        ]
        self._flip += [
            f"{old[flip.worker_id].name} on {places[flip.worker_id]}: {roles[flip.from_pool]} to {roles[flip.to_pool]}"
            for flip in made.flip
        ]
        was = _places(before)
        for move in (*made.drain, *made.stop, *made.remove):
            self._stop.setdefault(move.worker_id, f"{old[move.worker_id].name} on {was[move.worker_id]}")

    def _moment(self, text: str) -> _Moment:
        state = self._state
        scene = Scene(state)
        serving: Counter[tuple[Role, int]] = Counter()
        for pool in state.pools:
            for worker in scene.workers_of[pool.pool_id]:
                if worker.desired == WorkerDesired.RUN and scene.serves(worker, pool.role):
                    serving[pool.role, worker.revision] += 1
        ready = Counter({role: sum(number for (of, _), number in serving.items() if of == role) for role in Role})
        roles = [pool.role for pool in state.pools if pool.replicas]
        revisions = {revision for _, revision in serving}
        told = PreviewMoment(
            text=text,
            devices=sum(len(scene.devices_of[worker.worker_id]) for worker in state.workers),
            prefill=ready[Role.PREFILL],
            decode=ready[Role.DECODE],
            unified=ready[Role.UNIFIED],
        )
        return _Moment(told, any(all(serving[role, revision] for role in roles) for revision in revisions))

    def told(self) -> OperationPreview:
        moments = tuple(moment.told for moment in self._moments)
        return OperationPreview(
            start=tuple(self._start),
            stop=tuple(self._stop.values()),
            flip=tuple(self._flip),
            moments=moments,
            devices_max=max(moment.devices for moment in moments),
            budget=_budget(self._first, moments[0].devices),
            warnings=(
                *self._gaps(),
                *self._below_minimum(),
                *self._untried(),
                *memory_warnings(self._first, self._state),
                *self._out_of_sight(),
                *self.warnings,
            ),
            refusals=self._unmet,
        )

    # -- what people should know first

    def _gaps(self) -> list[str]:
        """Times in which nothing is served, though it was before."""
        if self._first.deleting:
            return []
        gaps: list[str] = []
        since = None
        for last, moment in zip(self._moments, self._moments[1:], strict=False):
            if last.pair and not moment.pair:
                since = moment.told.text
            if since is not None and moment.pair:
                gaps.append(f"Nothing serves between “{since}” and “{moment.told.text}”.")
                since = None
        return [*gaps, f"Nothing serves after “{since}”."] if since is not None else gaps

    def _below_minimum(self) -> list[str]:
        if self._first.deleting:
            return []
        return [
            f"{pool.role} falls to {least}, fewer than its minimum of {pool.min_replicas}."
            for pool in self._first.pools
            if (least := min(self._ready(pool.role))) < min(pool.min_replicas, self._ready(pool.role)[0])
        ]

    def _ready(self, role: Role) -> list[int]:
        return [
            {Role.PREFILL: each.told.prefill, Role.DECODE: each.told.decode, Role.UNIFIED: each.told.unified}[role]
            for each in self._moments
        ]

    def _untried(self) -> list[str]:
        """A candidate that is wanted somewhere, and nowhere for now."""
        state = self._first
        if state.candidate is None or not 0 < state.candidate_share < 1 or pairs_of(state.pools) != 1:
            return []
        only = "pair" if len([pool for pool in state.pools if pool.replicas]) > 1 else "worker"
        return [
            f"There is one {only} only, which stays at revision {state.stable}. Revision {state.candidate} takes all "
            "requests at the last step of its roll-out, without having been tried on some of them."
        ]

    def _out_of_sight(self) -> list[str]:
        state = self._state
        silent = [
            worker
            for worker in state.workers
            if worker.desired != WorkerDesired.RUN and state.nodes[worker.node].phase == NodePhase.LOST
        ]
        return [f"{worker.name} leaves only when {worker.node} is heard again." for worker in silent]


def _budget(snapshot: Snapshot, held: int) -> int:
    """Devices that the deployment may have: as many as it is limited to, or those it has and those that are free."""
    if snapshot.budget is not None:
        return snapshot.budget
    scene = Scene(snapshot)
    return held + sum(device.held_by is None and scene.open(device) for device in snapshot.devices)


def _sentence(made: Plan, before: Snapshot, after: Snapshot) -> str:
    """ "start prefill-2, drain decode-3"."""
    names = {worker.worker_id: worker.name for worker in (*after.workers, *before.workers)}
    known = {worker.worker_id for worker in before.workers}
    parts = (
        ("take back", [names[move.worker_id] for move in made.undrain]),
        ("flip", [names[flip.worker_id] for flip in made.flip]),
        ("drain", [names[move.worker_id] for move in made.drain]),
        ("stop", [names[move.worker_id] for move in made.stop]),
        ("let go of", [names[move.worker_id] for move in made.remove]),
        ("start", [worker.name for worker in after.workers if worker.worker_id not in known]),
    )
    return ", ".join(f"{verb} {_named(who)}" for verb, who in parts if who)


def _outcome(before: Snapshot, after: Snapshot) -> str:
    """ "prefill-2 ready, decode-3 gone"."""
    old = {worker.worker_id: worker for worker in before.workers}
    changed = [worker for worker in after.workers if worker != old[worker.worker_id]]
    ready = [worker.name for worker in changed if worker.phase == WorkerPhase.READY]
    gone = [worker.name for worker in changed if worker.phase == WorkerPhase.STOPPED]
    return ", ".join(f"{_named(who)} {state}" for state, who in (("ready", ready), ("gone", gone)) if who)


def _named(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) <= _NAMED else count(len(names))


def _places(snapshot: Snapshot) -> dict[str, str]:
    """Where each worker is: "node-2 gpu-1"."""
    devices = Scene(snapshot).devices_of
    return {worker.worker_id: _place(worker, devices[worker.worker_id]) for worker in snapshot.workers}


def _place(worker: WorkerSeen, devices: Iterable[DeviceSeen]) -> str:
    return " ".join((worker.node, *(f"{device.kind}-{device.index}" for device in devices)))
