"""What is on its way out, and how many missing workers can start once it is gone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from controlplane.pools.planning.placing import Placing
from controlplane.pools.planning.scaling import Standing
from controlplane.pools.planning.scene import Scene, fits, need_of
from controlplane.pools.planning.snapshot import DeviceSeen
from inference.contracts.states import NodePhase, WorkerDesired
from inference.planning.placement import Need

#: Devices that can't be told from one another, but for their labels.
_Bin = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What can start now, and what can once those that leave are gone: workers by pool."""

    placing: Placing
    awaited: Counter[str]

    def short(self, standing: Standing) -> int:
        """Missing workers for which nothing that is under way makes room."""
        return standing.missing.total() - self.awaited[standing.pool.pool_id]


def outlook_of(standings: Sequence[Standing], scene: Scene, placing: Placing) -> Outlook:
    """As things stand now; it changes with each worker that is told to leave."""
    return Outlook(placing, _awaited_workers(standings, scene, placing))


def leaving_workers(standings: Sequence[Standing], scene: Scene) -> dict[str, str]:
    """Workers of the deployment that leave, told so now or earlier, on nodes that report: pools by worker."""
    leaving: dict[str, str] = {}
    staying: set[str] = set()
    for standing in standings:
        told = {move.worker_id for move in (*standing.drain, *standing.stop)}
        for worker in scene.workers_of[standing.pool.pool_id]:
            heard = scene.snapshot.nodes[worker.node].phase == NodePhase.READY
            if heard and (worker.desired != WorkerDesired.RUN or worker.worker_id in told):
                leaving[worker.worker_id] = standing.pool.pool_id
        staying.update(worker.worker_id for worker in standing.kept)
        staying.update(move.worker_id for move in standing.remove)
    return {worker: pool for worker, pool in leaving.items() if worker not in staying}


def _awaited_workers(standings: Sequence[Standing], scene: Scene, placing: Placing) -> Counter[str]:
    """How many missing workers of each pool wait for devices that are being freed.

    A pool counts on what its own workers free first, and then on the rest. So of two pools that release and start, none
    counts on what the other one released for itself, and an applied plan leaves the same answer.
    """
    awaited: Counter[str] = Counter()
    if not any(standing.missing.total() for standing in standings):
        return awaited
    leaving = leaving_workers(standings, scene)
    supply = _Supply(_freed(leaving, scene, placing), placing.free)
    released = Counter(
        {
            pool: sum(len(scene.devices_of[worker]) for worker, of in leaving.items() if of == pool)
            for pool in set(leaving.values())
        }
    )
    allowance = None if placing.allowed is None else placing.allowed + released.total()
    for own in (True, False):
        for standing in standings:
            pool, size = standing.pool, standing.pool.tensor_parallel
            most = standing.missing.total() - awaited[pool.pool_id]
            if allowance is not None:
                most = min(most, (min(allowance, released[pool.pool_id]) if own else allowance) // size)
            drawn = supply.draw(need_of(pool), most, only=pool.pool_id if own else None)
            awaited[pool.pool_id] += drawn
            allowance = None if allowance is None else allowance - drawn * size
    return awaited


def _freed(leaving: dict[str, str], scene: Scene, placing: Placing) -> dict[str, list[DeviceSeen]]:
    """Devices that are being freed and may be given out again, by the pool that frees them; "" for all others."""
    ours = {worker.worker_id for worker in scene.snapshot.workers}
    freed: dict[str, list[DeviceSeen]] = defaultdict(list)
    for device in scene.snapshot.devices:
        holder = device.held_by
        if holder is None or device.kind != placing.kind or not scene.open(device):
            continue
        if holder in leaving:
            freed[leaving[holder]].append(device)
        elif holder not in ours and device.leaving:
            freed[""].append(device)
    return freed


class _Supply:
    """Devices that will be free, taken in groups of one bin."""

    def __init__(self, freed: dict[str, list[DeviceSeen]], free: Sequence[DeviceSeen]) -> None:
        """free: that are so already, and alone are not enough or not allowed."""
        self._freed = freed
        self._free = free
        self._used: set[str] = set()

    def draw(self, need: Need, most: int, *, only: str | None) -> int:
        """Take devices for up to `most` workers, of those that pool `only` frees or of all; for how many there were."""
        if most <= 0:
            return 0
        freed = self._freed.get(only, []) if only is not None else [each for of in self._freed.values() for each in of]
        bins: dict[_Bin, list[str]] = defaultdict(list)
        for device in (*sorted(freed, key=attrgetter("node", "index", "device")), *self._free):
            if device.device not in self._used and fits(device, need):
                bins[device.node, device.name, device.reserved_for].append(device.device)
        drawn = 0
        for devices in bins.values():
            for start in range(0, len(devices) - need.devices + 1, need.devices):
                if drawn == most:
                    return drawn
                self._used.update(devices[start : start + need.devices])
                drawn += 1
        return drawn
