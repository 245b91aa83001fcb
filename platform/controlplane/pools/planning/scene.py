"""A snapshot with what all parts of a plan ask of it, looked up once."""

from __future__ import annotations

from collections import defaultdict

from controlplane.pools.planning.snapshot import DeviceSeen, PoolSeen, Snapshot, WorkerSeen
from inference.contracts.states import NodeDesired, NodePhase, Role, WorkerDesired, WorkerPhase
from inference.planning.placement import Need, memory_suffices

#: Phases in which a worker may have answers to finish; UNKNOWN may be any of them.
MAY_SERVE = frozenset({WorkerPhase.READY, WorkerPhase.DRAINING, WorkerPhase.UNKNOWN})


class Scene:
    """One deployment and the fleet around it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.workers_of: dict[str, list[WorkerSeen]] = defaultdict(list)
        for worker in snapshot.workers:
            self.workers_of[worker.pool_id].append(worker)
        self.devices_of: dict[str, list[DeviceSeen]] = defaultdict(list)
        for device in snapshot.devices:
            if device.held_by is not None:
                self.devices_of[device.held_by].append(device)

    # -- workers

    def gone(self, worker: WorkerSeen) -> bool:
        """Its row and devices may be let go: its process is known to have ended, or its node is no longer ours."""
        stopped = worker.phase == WorkerPhase.STOPPED and worker.desired != WorkerDesired.RUN
        return stopped or self.snapshot.nodes[worker.node].desired == NodeDesired.RETIRED

    def silent(self, worker: WorkerSeen) -> bool:
        return self.snapshot.nodes[worker.node].phase == NodePhase.LOST

    def moving(self, worker: WorkerSeen) -> bool:
        """It shall leave its node."""
        return self.snapshot.nodes[worker.node].desired == NodeDesired.DRAINING

    def can_come_back(self, worker: WorkerSeen) -> bool:
        """Whether its drain can be cancelled."""
        able = worker.phase in (WorkerPhase.READY, WorkerPhase.DRAINING)
        return able and not self.silent(worker) and not self.moving(worker)

    def serves(self, worker: WorkerSeen, role: Role) -> bool:
        """It is known to take requests in this role, as long as it is wanted to run."""
        up = worker.phase == WorkerPhase.READY and self.snapshot.nodes[worker.node].phase == NodePhase.READY
        return up and worker.role == role

    def usefulness(self, worker: WorkerSeen, role: Role) -> tuple[int, bool, int, float, str]:
        """Smallest leaves first: failed, failing, not up yet, then up with little to do (a load that is not known
        counts as much); among equals the newest."""
        ranks = {WorkerPhase.STOPPED: 0, WorkerPhase.FAILED: 0, WorkerPhase.BACKOFF: 1}
        rank = ranks.get(worker.phase, 3 if worker.phase in MAY_SERVE else 2) + self.serves(worker, role)
        return rank, worker.busy is None, worker.busy or 0, -worker.created_at.timestamp(), worker.name

    # -- devices

    def open(self, device: DeviceSeen) -> bool:
        """Whether new workers of the deployment may get it, once nobody holds it."""
        node = self.snapshot.nodes[device.node]
        return (
            not device.missing
            and not device.blocked
            and node.phase == NodePhase.READY
            and node.desired == NodeDesired.ACTIVE
            and device.reserved_for in ("", self.snapshot.deployment)
        )


def need_of(pool: PoolSeen) -> Need:
    """What the workers of a pool need of their devices."""
    return Need(
        pool=pool.pool_id,
        role=pool.role,
        devices=pool.tensor_parallel,
        labels=pool.labels,
        memory=pool.bytes_needed,
        strategy=pool.strategy,
    )


def fits(device: DeviceSeen, need: Need) -> bool:
    """Whether it is a device that such a worker can use, whoever has it now."""
    return need.labels <= device.labels and memory_suffices(device.memory_total, need)


def count(number: int, noun: str = "worker") -> str:
    """ "1 worker", "2 workers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
