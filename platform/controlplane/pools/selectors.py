"""Reading deployments, pools and workers, and the snapshot that a plan is made from."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q, QuerySet

from controlplane.core.errors import NotFound
from controlplane.fleet.models import Device, Node
from controlplane.pools.models import Deployment, Pool, Worker
from controlplane.pools.plan import DeviceSeen, NodeSeen, PoolSeen, Snapshot, WorkerSeen
from inference.contracts.states import DeviceKind, NodePhase, Role, WorkerDesired, WorkerPhase


def deployment_list() -> QuerySet[Deployment]:
    """By name, with all that is shown of them."""
    return Deployment.objects.select_related("rollout__candidate").prefetch_related(
        "revisions__model", "pools__workers__node", "pools__workers__revision", "pools__workers__allocations__device"
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


def snapshot(deployment: Deployment, nodes: Sequence[Node]) -> Snapshot:
    """The deployment as it is, on a fleet of `nodes` (whose rows the caller has locked, if it is going to act)."""
    workers = Worker.objects.filter(pool__deployment=deployment).select_related("node").order_by("name")
    devices = Device.objects.filter(node__in=nodes).select_related("node", "allocation__worker")
    return Snapshot(
        deleting=deployment.deleting,
        pools=tuple(
            PoolSeen(pool_id=str(pool.pk), role=Role(pool.role), replicas=pool.replicas)
            for pool in Pool.objects.filter(deployment=deployment)
        ),
        workers=tuple(worker_seen(worker) for worker in workers),
        nodes={node.name: NodeSeen(node.name, NodePhase(node.phase)) for node in nodes},
        devices=tuple(_device_seen(device) for device in devices),
    )


def worker_seen(worker: Worker) -> WorkerSeen:
    load = worker.known_load
    return WorkerSeen(
        worker_id=str(worker.pk),
        name=worker.name,
        pool_id=str(worker.pool_id),
        node=worker.node.name,
        desired=WorkerDesired(worker.desired),
        phase=WorkerPhase(worker.phase),
        phase_since=worker.phase_since,
        created_at=worker.created_at,
        busy=None if load is None else load.running + load.waiting,
        attempts=worker.attempts,
        reason=worker.reason,
    )


def _device_seen(device: Device) -> DeviceSeen:
    allocation = getattr(device, "allocation", None)
    return DeviceSeen(
        device=str(device.pk),
        node=device.node.name,
        kind=DeviceKind(device.kind),
        index=device.index,
        missing=device.missing,
        held_by=None if allocation is None else str(allocation.worker_id),
        leaving=allocation is not None and allocation.worker.desired != WorkerDesired.RUN,
    )


def workers_routable() -> QuerySet[Worker]:
    """Workers that may be sent requests: wanted, ready on a node that reports, with address and fingerprint known."""
    return (
        Worker.objects.filter(
            desired=WorkerDesired.RUN,
            phase=WorkerPhase.READY,
            node__phase=NodePhase.READY,
            http_port__isnull=False,
            pool__deployment__deleting=False,
        )
        .exclude(Q(fingerprint="") | Q(http_host=""))
        .select_related("pool", "revision")
        .order_by("pk")
    )
