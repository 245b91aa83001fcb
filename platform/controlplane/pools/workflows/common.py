"""What all workflows of this app share: their targets, the lock, and what they are shown to see how far they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from controlplane.core.errors import Conflict, NotFound
from controlplane.operations.models import Operation
from controlplane.operations.services import Target
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.models import Deployment, Pool, Rollout, Worker
from controlplane.pools.pairing import conflicts, serves
from controlplane.pools.plan_types import Plan, PoolSeen, WorkerSeen
from controlplane.pools.presenters import worker_peer
from controlplane.pools.rollout_steps import Decision
from inference.contracts.states import Role, WorkerDesired

DEPLOYMENT = "deployment"
POOL = "pool"
WORKER = "worker"


def deployment_target(deployment: Deployment) -> Target:
    return Target(DEPLOYMENT, str(deployment.pk), deployment.name)


def pool_target(pool: Pool) -> Target:
    return Target(POOL, str(pool.pk), str(pool))


def worker_target(worker: Worker) -> Target:
    return Target(WORKER, str(worker.pk), worker.name)


def deployment_lock(operation: Operation) -> None:
    """`Workflow.lock` of every kind here: two changes of one deployment take turns."""
    Deployment.objects.select_for_update().filter(pk=operation.request["deployment_id"]).first()


def deployment_locked(**named: object) -> Deployment:
    """The deployment, locked, so that what is checked is still so when it is written.

    Raises:
        NotFound: there is none.
        Conflict: it is being deleted.
    """
    deployment = Deployment.objects.select_for_update().filter(**named).first()
    if deployment is None:
        raise NotFound("deployment", str(next(iter(named.values()))))
    if deployment.deleting:
        raise Conflict(f"{deployment} is being deleted.", code="deleting")
    return deployment


def pools_of(deployment: Deployment) -> dict[Role, Pool]:
    return {Role(pool.role): pool for pool in Pool.objects.filter(deployment=deployment).select_related("deployment")}


def split_pools(deployment: Deployment) -> tuple[Pool, Pool]:
    """Its prefill pool and its decode pool.

    Raises:
        Conflict: it has unified workers, which have no other role.
    """
    pools = pools_of(deployment)
    if Role.PREFILL not in pools or Role.DECODE not in pools:
        raise Conflict(f"{deployment} has unified workers, which do both stages.", code="unified")
    return pools[Role.PREFILL], pools[Role.DECODE]


def look_again(deployment: Deployment) -> None:
    """Have it reconciled, and shown as it is now, once this is committed."""
    reconcile_request([deployment.pk])
    deployments_announce([deployment.pk])


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
