"""What operations work on, named and locked."""

from __future__ import annotations

from controlplane.core.errors import Conflict, NotFound
from controlplane.core.locking import locked
from controlplane.operations.models import Operation
from controlplane.operations.services import Target
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.models import Deployment, Pool, Worker
from inference.contracts.states import Role

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
    locked(Deployment.objects).filter(pk=operation.request["deployment_id"]).first()


def deployment_locked(**named: object) -> Deployment:
    """The deployment, locked, so that what is checked is still so when it is written.

    Raises:
        NotFound: there is none.
        Conflict: it is being deleted.
    """
    deployment = locked(Deployment.objects).filter(**named).first()
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
