"""Reading deployments, pools and workers, and the snapshot that a plan is made from."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db.models import F, Max, Q, QuerySet

from controlplane.core.errors import NotFound
from controlplane.fleet.models import Device, Node
from controlplane.pools.engines import capabilities
from controlplane.pools.models import Deployment, Pool, Rollout, Worker
from controlplane.pools.plan_types import DeviceSeen, NodeSeen, PoolSeen, Snapshot, WorkerSeen
from inference.contracts.states import (
    DeviceKind,
    NodeDesired,
    NodePhase,
    PlacementStrategy,
    Role,
    WorkerDesired,
    WorkerPhase,
)

#: Label of a node that says which network switch it hangs on.
_SWITCH = "switch="


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


def snapshot(deployment: Deployment, *, budget: int | None = None) -> Snapshot:
    """The deployment as it is, on the whole fleet, in a number of queries that depends on neither's size.

    budget: see `Snapshot`.
    """
    nodes = {node.pk: node for node in Node.objects.all()}
    rollout = rollout_of(deployment)
    return Snapshot(
        deleting=deployment.deleting,
        pools=pools_seen(deployment),
        workers=workers_seen(deployment),
        nodes={node.name: _node_seen(node) for node in nodes.values()},
        devices=_devices_seen(nodes),
        deployment=deployment.name,
        stable=deployment.stable,
        candidate=None if rollout is None else rollout.candidate.number,
        candidate_share=0.0 if rollout is None else rollout.share,
        can_flip=capabilities(deployment.engine).switches_role,
        budget=budget,
    )


def rollout_of(deployment: Deployment) -> Rollout | None:
    """The roll-out as it is now, read again."""
    return Rollout.objects.select_related("candidate").filter(deployment=deployment).first()


def newest_revision(deployment: Deployment) -> int:
    """The highest number given so far."""
    return deployment.revisions.aggregate(newest=Max("number"))["newest"] or 0


def pools_seen(deployment: Deployment) -> tuple[PoolSeen, ...]:
    return tuple(
        PoolSeen(
            pool_id=str(pool.pk),
            role=Role(pool.role),
            replicas=pool.replicas,
            min_replicas=pool.min_replicas,
            labels=frozenset(pool.labels),
            tensor_parallel=pool.tensor_parallel,
            strategy=PlacementStrategy(pool.strategy),
        )
        for pool in Pool.objects.filter(deployment=deployment)
    )


def workers_seen(deployment: Deployment) -> tuple[WorkerSeen, ...]:
    workers = Worker.objects.filter(pool__deployment=deployment).select_related("node", "revision").order_by("name")
    return tuple(worker_seen(worker) for worker in workers)


def worker_seen(worker: Worker) -> WorkerSeen:
    load = worker.known_load
    return WorkerSeen(
        worker_id=str(worker.pk),
        name=worker.name,
        pool_id=str(worker.pool_id),
        node=worker.node.name,
        # One that is being renewed is drained only to come back.
        desired=WorkerDesired.RUN if worker.renewing else WorkerDesired(worker.desired),
        phase=WorkerPhase(worker.phase),
        phase_since=worker.phase_since,
        created_at=worker.created_at,
        busy=None if load is None else load.running + load.waiting,
        attempts=worker.attempts,
        reason=worker.reason,
        handoffs=None if load is None else load.handoffs,
        role=Role(worker.observed_role) if worker.observed_role else None,
        refused_role=Role(worker.refused_role) if worker.refused_role else None,
        revision=worker.revision.number,
    )


def _node_seen(node: Node) -> NodeSeen:
    switches = (label.removeprefix(_SWITCH) for label in node.labels if label.startswith(_SWITCH))
    return NodeSeen(node.name, NodePhase(node.phase), NodeDesired(node.desired), next(switches, ""))


def _devices_seen(nodes: Mapping[UUID, Node]) -> tuple[DeviceSeen, ...]:
    columns = ("pk", "node_id", "device_id", "kind", "index", "missing", "name", "memory_total", "labels")
    more = ("maintenance", "fault", "reserved_for", "nvlink_peers")
    holder = ("allocation__worker_id", "allocation__worker__desired", "allocation__worker__renewing")
    # A node that has joined since its row was not there yet has its turn next time.
    rows = [row for row in Device.objects.values_list(*columns, *more, *holder, named=True) if row.node_id in nodes]
    unique = {(row.node_id, row.device_id): str(row.pk) for row in rows}
    return tuple(
        DeviceSeen(
            device=str(row.pk),
            node=nodes[row.node_id].name,
            kind=DeviceKind(row.kind),
            index=row.index,
            missing=row.missing,
            held_by=str(row.allocation__worker_id) if row.allocation__worker_id else None,
            leaving=row.allocation__worker__desired not in (None, WorkerDesired.RUN)
            and not row.allocation__worker__renewing,
            name=row.name,
            memory_total=row.memory_total,
            labels=frozenset((*row.labels, *nodes[row.node_id].labels)),
            blocked="in maintenance" if row.maintenance else row.fault,
            reserved_for=row.reserved_for,
            nvlink_peers=frozenset(
                unique[row.node_id, peer] for peer in row.nvlink_peers if (row.node_id, peer) in unique
            ),
        )
        for row in rows
    )


def workers_routable() -> QuerySet[Worker]:
    """Workers that may be sent requests: wanted, ready in the role of their pool, on a node that reports and is ours,
    with address and fingerprint known."""
    return (
        Worker.objects.filter(
            desired=WorkerDesired.RUN,
            phase=WorkerPhase.READY,
            observed_role=F("pool__role"),
            node__phase=NodePhase.READY,
            http_port__isnull=False,
            pool__deployment__deleting=False,
        )
        .exclude(Q(fingerprint="") | Q(http_host="") | Q(node__desired=NodeDesired.RETIRED))
        .select_related("pool", "revision")
        .order_by("pk")
    )
