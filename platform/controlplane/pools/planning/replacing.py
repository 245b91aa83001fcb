"""Stand-ins: workers of another revision, or on a node that is being drained, which serve until others have come up.

Where a device is free the new worker starts first, and the old one leaves when it serves. Where none is, the old one
leaves first, a few at a time, and not at all where that would leave its pool with too little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from controlplane.pools.planning.scaling import Standing, why_replaced
from controlplane.pools.planning.scene import Scene, count, fits, need_of
from controlplane.pools.planning.snapshot import WorkerSeen
from controlplane.pools.planning.waiting import Outlook, leaving_workers
from inference.contracts.states import WorkerPhase

#: One in so many of a pool's workers may be away at once when there is no room to start the new ones first.
_ONE_IN = 10

#: Phases in which a worker that keeps its place does not come up by itself.
_AT_REST = frozenset({WorkerPhase.FAILED, WorkerPhase.STOPPED})


class Replacing:
    """Dismisses stand-ins of all pools of a deployment, and keeps account of who still serves."""

    def __init__(self, standings: Sequence[Standing], scene: Scene) -> None:
        self._standings = standings
        self._scene = scene
        self._populated = [standing for standing in standings if standing.pool.replicas]
        self._serving = {standing.pool.pool_id: self._count_serving(standing) for standing in standings}

    def _count_serving(self, standing: Standing) -> Counter[int]:
        present = (*standing.kept, *standing.stand_ins)
        return Counter(worker.revision for worker in present if self._scene.serves(worker, standing.pool.role))

    def dismiss_replaced(self) -> bool:
        """Have those leave in whose place others serve; whether there were any."""
        dismissed = False
        for standing in self._standings:
            over = self._over(standing)
            for worker in tuple(standing.stand_ins):
                if over > 0 and not self._last_pair(worker, standing):
                    self._dismiss(worker, standing)
                    dismissed, over = True, over - 1
        return dismissed

    def release(self, outlook: Outlook) -> bool:
        """Have those leave that nothing comes up for, where that makes room or has to be; whether there were any."""
        released = False
        for standing in self._standings:
            for worker in self._uncovered(standing, outlook):
                if self._enough(standing, standing.pool.min_replicas):
                    self._dismiss(worker, standing)
                    released = True
            left, keep = outlook.short(standing), self._floor(standing)
            for worker in self._outdated(standing):
                if (
                    left > 0
                    and self._allowed(worker, standing, outlook, keep=keep)
                    and not self._last_pair(worker, standing)
                ):
                    self._dismiss(worker, standing)
                    released, left = True, left - 1
        return released

    def release_last_pair(self, outlook: Outlook) -> bool:
        """The one case in which nothing of the old revision goes on serving: no device is free or being freed for a
        whole new pair, and everything that could come up has. Whether it was that case, and allowed."""
        if not self._settled(outlook):
            return False
        lacking = [standing for standing in self._populated if outlook.short(standing) > 0]
        last = [
            (worker, standing)
            for standing in lacking
            for worker in standing.stand_ins
            if self._last_pair(worker, standing)
        ]
        if len(last) < len(lacking) or not all(self._allowed(*each, outlook, keep=0) for each in last):
            return False
        for worker, standing in last:
            self._dismiss(worker, standing)
        return bool(last)

    def rolling(self, standing: Standing, outlook: Outlook) -> int:
        """Stand-ins that will be released in their turn, though not now."""
        if self._floor(standing) >= standing.pool.replicas:
            return 0
        return sum(self._useful(worker, standing, outlook) for worker in self._outdated(standing))

    def notes(self, standing: Standing, outlook: Outlook) -> list[str]:
        """Why stand-ins stay although it would be their turn, in a sentence each."""
        role, least = standing.pool.role, count(standing.pool.min_replicas, "ready worker")
        notes = [
            f"{worker.name} stays on {worker.node}, which is being drained: {role} may not have fewer than {least}"
            for worker in self._uncovered(standing, outlook)
        ]
        if outlook.short(standing) > 0 or self._over(standing) > 0:
            pair = "a pair" if len(self._populated) > 1 else "one"
            newer = " or ".join(str(revision) for revision in standing.wanted)
            notes += [
                f"{worker.name} serves on until {pair} of revision {newer} does"
                for worker in standing.stand_ins
                if self._last_pair(worker, standing)
            ]
        return notes

    # -- rules

    def _over(self, standing: Standing) -> int:
        """How many stand-ins there are beyond the places in which nobody serves yet."""
        up = sum(self._scene.serves(worker, standing.pool.role) for worker in standing.kept)
        return len(standing.stand_ins) - (standing.pool.replicas - up)

    def _outdated(self, standing: Standing) -> list[WorkerSeen]:
        """Stand-ins whose devices can serve on."""
        return [worker for worker in standing.stand_ins if not self._scene.moving(worker)]

    def _uncovered(self, standing: Standing, outlook: Outlook) -> list[WorkerSeen]:
        """Those on nodes being drained in whose place nothing comes up: they go, whether or not that makes room."""
        movers = [worker for worker in standing.stand_ins if self._scene.moving(worker)]
        coming = sum(
            worker.phase not in _AT_REST and not self._scene.serves(worker, standing.pool.role)
            for worker in standing.kept
        )
        coming += sum(start.pool_id == standing.pool.pool_id for start in outlook.placing.start)
        coming += outlook.awaited[standing.pool.pool_id]
        return movers[: max(0, len(movers) - coming)]

    def _allowed(self, worker: WorkerSeen, standing: Standing, outlook: Outlook, *, keep: int) -> bool:
        least = max(keep, standing.pool.min_replicas)
        return self._useful(worker, standing, outlook) and self._enough(standing, least)

    @staticmethod
    def _floor(standing: Standing) -> int:
        replicas = standing.pool.replicas
        return max(standing.pool.min_replicas, replicas - max(1, replicas // _ONE_IN))

    def _enough(self, standing: Standing, least: int) -> bool:
        """Whether enough are known to serve when one more goes. One whose state is not known may be serving too."""
        return max(0, self._serving[standing.pool.pool_id].total() - 1) >= least

    def _useful(self, worker: WorkerSeen, standing: Standing, outlook: Outlook) -> bool:
        """Whether its going makes room for another of its pool."""
        need = need_of(standing.pool)
        devices = self._scene.devices_of[worker.worker_id]
        again = len(devices) >= need.devices and all(self._scene.open(each) and fits(each, need) for each in devices)
        return again or (outlook.placing.allowed is not None and any(fits(each, need) for each in outlook.placing.free))

    def _last_pair(self, worker: WorkerSeen, standing: Standing) -> bool:
        """Whether it belongs to the last serving pair of an unwanted revision, and no pair of a wanted one serves."""
        old, role = worker.revision, standing.pool.role
        if not standing.pool.replicas or old in standing.wanted or not self._scene.serves(worker, role):
            return False
        if self._serving[standing.pool.pool_id][old] > 1:
            return False
        others = {revision for each in self._populated for revision in each.wanted}
        return self._pair_serves(old) and not any(self._pair_serves(revision) for revision in others)

    def _pair_serves(self, revision: int) -> bool:
        return all(self._serving[standing.pool.pool_id][revision] for standing in self._populated)

    def _settled(self, outlook: Outlook) -> bool:
        """Nothing starts, comes up, changes over or leaves any more."""
        up = all(
            self._scene.serves(worker, standing.pool.role) for standing in self._standings for worker in standing.kept
        )
        return up and not outlook.placing.start and not leaving_workers(self._standings, self._scene)

    def _dismiss(self, worker: WorkerSeen, standing: Standing) -> None:
        standing.stand_ins.remove(worker)
        standing.dismiss(worker, why_replaced(worker, standing, self._scene))
        if self._scene.serves(worker, standing.pool.role):
            self._serving[standing.pool.pool_id][worker.revision] -= 1
