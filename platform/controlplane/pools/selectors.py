"""Reading deployments, pools and workers."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, Max, Prefetch, Q, QuerySet

from controlplane.core.errors import NotFound
from controlplane.fleet.models import Node
from controlplane.pools.models import Allocation, Deployment, Pool, Revision, Rollout, Worker
from inference.contracts.states import NodeDesired, NodePhase, WorkerDesired, WorkerPhase


def deployment_list() -> QuerySet[Deployment]:
    """By name, with all that is shown of them."""
    held = Allocation.objects.select_related("device").only("worker_id", "device__device_id")
    return Deployment.objects.select_related("rollout__candidate").prefetch_related(
        "revisions__model",
        Prefetch("pools__workers__node", Node.objects.only("name", "phase")),
        Prefetch("pools__workers__revision", Revision.objects.only("number")),
        Prefetch("pools__workers__allocations", held),
    )


def deployment_get(name: str) -> Deployment:
    """
    Raises:
        NotFound: no deployment has this name.
    """
    deployment = deployment_list().filter(name=name).first()
    if deployment is None:
        raise NotFound("deployment", name)
    return deployment


def pool_get(pool_id: UUID) -> Pool:
    """
    Raises:
        NotFound: no pool has this id.
    """
    pool = Pool.objects.select_related("deployment").filter(pk=pool_id).first()
    if pool is None:
        raise NotFound("pool", str(pool_id))
    return pool


def worker_get(worker_id: UUID) -> Worker:
    """
    Raises:
        NotFound: no worker has this id.
    """
    worker = Worker.objects.select_related("pool__deployment", "node").filter(pk=worker_id).first()
    if worker is None:
        raise NotFound("worker", str(worker_id))
    return worker


def pools_short_of_workers() -> QuerySet[Pool]:
    """Pools whose last plan could not place all that is wanted."""
    return Pool.objects.exclude(refusals="")


def rollout_of(deployment: Deployment) -> Rollout | None:
    """The roll-out as it is now, read again."""
    return Rollout.objects.select_related("candidate").filter(deployment=deployment).first()


def rollout_policy_of(name: str) -> object:
    """How revisions of the deployment `name` are rolled out, as it is kept; None where there is no such deployment."""
    return Deployment.objects.filter(name=name).values_list("rollout_policy", flat=True).first()


def newest_revision(deployment: Deployment) -> int:
    """The highest number given so far."""
    return deployment.revisions.aggregate(newest=Max("number"))["newest"] or 0


def workers_routable() -> QuerySet[Worker]:
    """Workers that may be sent requests: wanted, ready in the role of their pool, on a node that is ours, with address
    and fingerprint known. Those on a node that is silent were all that when it was last heard."""
    in_sight = Q(phase=WorkerPhase.READY, node__phase=NodePhase.READY)
    out_of_sight = Q(phase__in=[WorkerPhase.READY, WorkerPhase.UNKNOWN], node__phase=NodePhase.LOST)
    return (
        Worker.objects.filter(
            in_sight | out_of_sight,
            desired=WorkerDesired.RUN,
            observed_role=F("pool__role"),
            http_port__isnull=False,
            pool__deployment__deleting=False,
        )
        .exclude(Q(fingerprint="") | Q(http_host="") | Q(node__desired=NodeDesired.RETIRED))
        .select_related("pool", "revision")
        .order_by("pk")
    )
