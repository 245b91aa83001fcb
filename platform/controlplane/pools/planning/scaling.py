"""Of one pool: who stays, who comes back from a drain, who is one too many, who serves on until replaced."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.pools.planning.changes import Move
from controlplane.pools.planning.scene import MAY_SERVE, Scene, count
from controlplane.pools.planning.snapshot import PoolSeen, WorkerSeen
from inference.contracts.states import WorkerDesired, WorkerPhase

#: Phases in which a drained worker is still on its way out by itself.
_LEAVING = MAY_SERVE | {WorkerPhase.STOPPING, WorkerPhase.STOPPED}


@dataclass(slots=True)
class Standing:
    """What is decided for one pool so far; the parts of a plan work on it one after the other.

    wanted: workers by revision. kept: those that fill the places. missing: by revision, those that have no place yet.
    surplus: too many, and not yet told to leave: another pool may have use for them. resting: drained before, and could
    come back. stand_ins: to be replaced and serving until then, the most dispensable first.
    """

    pool: PoolSeen
    wanted: dict[int, int]
    kept: list[WorkerSeen] = field(default_factory=list)
    missing: Counter[int] = field(default_factory=Counter)
    surplus: list[WorkerSeen] = field(default_factory=list)
    resting: list[WorkerSeen] = field(default_factory=list)
    stand_ins: list[WorkerSeen] = field(default_factory=list)
    undrain: list[Move] = field(default_factory=list)
    drain: list[Move] = field(default_factory=list)
    stop: list[Move] = field(default_factory=list)
    remove: list[Move] = field(default_factory=list)

    def dismiss(self, worker: WorkerSeen, why: str) -> None:
        """Have it leave, in the way that its phase asks for."""
        if worker.phase == WorkerPhase.STOPPED:
            self.remove.append(Move(worker.worker_id, why))
        elif worker.phase in MAY_SERVE:
            self.drain.append(Move(worker.worker_id, why))
        else:
            self.stop.append(Move(worker.worker_id, why))

    @property
    def shape(self) -> str:
        """Why somebody is one too many."""
        return f"{self.pool.role} shall have {count(self.pool.replicas)}"


def standing_of(pool: PoolSeen, wanted: dict[int, int], scene: Scene) -> Standing:
    """Sort the workers of one pool."""
    standing = Standing(pool, wanted)
    workers = []
    for worker in scene.workers_of[pool.pool_id]:
        if scene.gone(worker):
            standing.remove.append(Move(worker.worker_id, f"it is gone from {worker.node}"))
        elif worker.desired == WorkerDesired.DRAIN and worker.phase not in _LEAVING:
            standing.stop.append(Move(worker.worker_id, "it has nothing to finish"))
        else:
            workers.append(worker)
    running = [worker for worker in workers if worker.desired == WorkerDesired.RUN]
    if scene.snapshot.deleting:
        for worker in running:
            standing.dismiss(worker, "the deployment is being deleted")
        return standing
    drained = [worker for worker in workers if worker.desired == WorkerDesired.DRAIN and scene.can_come_back(worker)]
    _fill_places(standing, [worker for worker in running if not scene.silent(worker)], drained, scene)
    return standing


def _fill_places(standing: Standing, places: list[WorkerSeen], drained: list[WorkerSeen], scene: Scene) -> None:
    """places: wanted and not on a silent node. drained: could come back."""
    role = standing.pool.role
    fit: dict[int, list[WorkerSeen]] = defaultdict(list)
    outdated: list[WorkerSeen] = []
    for worker in places:
        usable = worker.revision in standing.wanted and not scene.moving(worker)
        (fit[worker.revision] if usable else outdated).append(worker)
    spare: dict[int, list[WorkerSeen]] = {}
    back: set[str] = set()
    for revision, wanted in standing.wanted.items():
        ranked = sorted(fit[revision], key=lambda worker: scene.usefulness(worker, role), reverse=True)
        standing.kept += ranked[:wanted]
        spare[revision] = ranked[wanted:]
        able = [worker for worker in drained if worker.revision == revision]
        able.sort(key=lambda worker: scene.usefulness(worker, role), reverse=True)
        chosen = able[: max(0, wanted - len(ranked))]
        standing.kept += chosen
        standing.undrain += [Move(worker.worker_id, standing.shape) for worker in chosen]
        back |= {worker.worker_id for worker in chosen}
        standing.missing[revision] = max(0, wanted - len(ranked) - len(chosen))
    standing.resting = [worker for worker in drained if worker.worker_id not in back]
    _sort_spare(standing, spare, outdated, scene)


def _sort_spare(
    standing: Standing, spare: dict[int, list[WorkerSeen]], outdated: Iterable[WorkerSeen], scene: Scene
) -> None:
    """A spare worker stands in as long as another revision has not come up in its place; an outdated one always may.
    Who can't have anything to finish serves nobody, so it goes at once and frees its devices."""
    role = standing.pool.role
    up = Counter(worker.revision for worker in standing.kept if scene.serves(worker, role))
    awaited = {revision: wanted - up[revision] for revision, wanted in standing.wanted.items()}
    candidates = list(outdated)
    for revision, workers in spare.items():
        others = sum(awaited.values()) - awaited[revision]
        candidates += workers[:others]
        standing.surplus += reversed(workers[others:])
    for worker in candidates:
        if worker.phase in MAY_SERVE:
            standing.stand_ins.append(worker)
        else:
            standing.dismiss(worker, why_replaced(worker, standing, scene))
    standing.stand_ins.sort(key=lambda each: _indispensability(each, standing, scene))


def _indispensability(worker: WorkerSeen, standing: Standing, scene: Scene) -> tuple[object, ...]:
    """Those that serve nobody go first, then those whose node waits for them to go."""
    role = standing.pool.role
    return scene.serves(worker, role), not scene.moving(worker), scene.usefulness(worker, role)


def why_replaced(worker: WorkerSeen, standing: Standing, scene: Scene) -> str:
    """Why a worker that fills a place shall not keep it."""
    if scene.moving(worker):
        return f"{worker.node} is being drained"
    if worker.revision in standing.wanted:
        return (
            f"{standing.pool.role} shall have {count(standing.wanted[worker.revision])} of revision {worker.revision}"
        )
    revisions = " and ".join(str(revision) for revision in sorted(standing.wanted))
    return f"revision {revisions} replaces revision {worker.revision}" if revisions else standing.shape
