"""What a running operation is shown, to see how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from controlplane.operations.models import Operation
from controlplane.pools.models import Deployment, Rollout, Worker
from controlplane.pools.pairing import conflicts, serves
from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.snapshot import PoolSeen, WorkerSeen
from controlplane.pools.presenters import worker_peer
from controlplane.pools.rollout.steps import Decision
from inference.contracts.states import Role, WorkerDesired


@dataclass(frozen=True)
class Look:
    """A deployment after its plan was applied. gone: workers that left with it. rollout: as it is now; decision: what
    was just decided of it."""

    deployment: Deployment
    pools: Sequence[PoolSeen]
    workers: Sequence[WorkerSeen]
    made: Plan
    gone: Sequence[WorkerSeen]
    rollout: Rollout | None = None
    decision: Decision | None = None

    @cached_property
    def roles(self) -> Mapping[str, Role]:
        """Of the pools, by id."""
        return {pool.pool_id: pool.role for pool in self.pools}

    def worker(self, worker_id: str) -> WorkerSeen | None:
        return next((worker for worker in self.workers if worker.worker_id == worker_id), None)

    def unmet(self, pool_ids: Sequence[str]) -> list[str]:
        return [each.reason for each in (*self.made.wait, *self.made.refused) if each.pool_id in pool_ids]

    def of_pools(self, workers: Sequence[WorkerSeen], pool_ids: Sequence[str]) -> list[WorkerSeen]:
        return [worker for worker in workers if worker.pool_id in pool_ids]

    def conflict(self) -> str:
        """Why ready workers can't serve together; empty when they can, or when nothing stands against it (F06)."""
        workers = Worker.objects.filter(pool__deployment=self.deployment, desired=WorkerDesired.RUN)
        rows = {str(worker.pk): worker for worker in workers.select_related("pool", "node", "revision")}
        peers = [worker_peer(worker) for worker in rows.values()]
        if serves(peers):
            return ""
        return next((f"{rows[worker_id].name} {why}." for worker_id, why in conflicts(peers).items()), "")


def since(operation: Operation) -> datetime:
    """From when on news belong to a running operation."""
    return operation.started_at or operation.requested_at
