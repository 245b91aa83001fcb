"""What plans and operations are made from, read from rows: in a number of queries that depends on no size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from controlplane.fleet.models import Device, Link, Node
from controlplane.pools.checks.engine import capabilities
from controlplane.pools.memory import with_memory
from controlplane.pools.models import Deployment, Pool, Rollout, Worker
from controlplane.pools.planning.snapshot import DeviceSeen, NodeSeen, PoolSeen, Snapshot, WorkerSeen
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


def snapshot(deployment: Deployment, *, budget: int | None = None, own: Snapshot | None = None) -> Snapshot:
    """The deployment as it is, on the whole fleet. budget: see `Snapshot`. own: what `own_snapshot` found in the same
    transaction; its workers are not read again."""
    workers = workers_seen(deployment) if own is None else own.workers
    return _snapshot(deployment, workers, Device.objects.all(), Node.objects.all(), budget)


def own_snapshot(deployment: Deployment, *, budget: int | None = None) -> Snapshot:
    """The same as if the fleet had only the devices that the deployment holds, and their nodes. Enough to see that it
    lacks nothing and is to change nothing, which is so nearly always; a fleet has thousands of devices."""
    workers = Worker.objects.filter(pool__deployment=deployment)
    devices = Device.objects.filter(allocation__worker__in=workers)
    nodes = Node.objects.filter(pk__in=workers.values("node"))
    return _snapshot(deployment, workers_seen(deployment), devices, nodes, budget)


def _snapshot(
    deployment: Deployment,
    workers: tuple[WorkerSeen, ...],
    devices: QuerySet[Device],
    among: QuerySet[Node],
    budget: int | None,
) -> Snapshot:
    nodes = {node.pk: node for node in among.only("name", "phase", "desired", "labels")}
    rollout = Rollout.objects.select_related("candidate").filter(deployment=deployment).first()
    candidate = None if rollout is None else rollout.candidate.number
    seen = _devices_seen(devices, nodes)
    return Snapshot(
        deleting=deployment.deleting,
        pools=with_memory(
            pools_seen(deployment),
            deployment,
            revisions=(deployment.stable, candidate),
            workers=workers,
            devices=seen,
        ),
        workers=workers,
        nodes={node.name: _node_seen(node) for node in nodes.values()},
        devices=seen,
        deployment=deployment.name,
        stable=deployment.stable,
        candidate=candidate,
        candidate_share=0.0 if rollout is None else rollout.share,
        can_flip=capabilities(deployment.engine).switches_role,
        links=_links(nodes),
        budget=budget,
    )


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
    return tuple(worker_seen(worker) for worker in workers.only(*_SEEN))


#: What `worker_seen` reads.
_SEEN = (
    *("name", "pool_id", "desired", "renewing", "phase", "phase_since", "created_at", "attempts", "reason", "load"),
    *("observed_role", "refused_role", "node__name", "revision__number"),
)


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
        role=worker.known_role,
        refused_role=Role(worker.refused_role) if worker.refused_role else None,
        revision=worker.revision.number,
    )


def _links(nodes: Mapping[UUID, Node]) -> dict[tuple[str, str], float]:
    """What was measured between these nodes; only pairs that somebody needed are measured at all."""
    measured = Link.objects.filter(bytes_per_s__isnull=False).order_by()
    return {
        (nodes[source].name, nodes[target].name): speed
        for source, target, speed in measured.values_list("source_id", "target_id", "bytes_per_s")
        if source in nodes and target in nodes and speed is not None
    }


def _node_seen(node: Node) -> NodeSeen:
    switches = (label.removeprefix(_SWITCH) for label in node.labels if label.startswith(_SWITCH))
    return NodeSeen(node.name, NodePhase(node.phase), NodeDesired(node.desired), next(switches, ""))


def _devices_seen(devices: QuerySet[Device], nodes: Mapping[UUID, Node]) -> tuple[DeviceSeen, ...]:
    """A large fleet has thousands, so this makes nothing anew for each that can be shared."""
    columns = ("pk", "node_id", "device_id", "kind", "index", "missing", "name", "memory_total")
    more = ("maintenance", "fault", "reserved_for", "labels_text", "peers_text")
    holder = ("allocation__worker_id", "allocation__worker__desired", "allocation__worker__renewing")
    told = devices.annotate(labels_text=Cast("labels", TextField()), peers_text=Cast("nvlink_peers", TextField()))
    # A node that has joined since its row was not there yet has its turn next time.
    rows = [row for row in told.values_list(*columns, *more, *holder) if row[1] in nodes]
    unique = {(row[1], row[2]): str(row[0]) for row in rows}
    named = {pk: (node.name, frozenset(node.labels)) for pk, node in nodes.items()}
    seen = []
    for pk, node_pk, _, kind, index, missing, name, memory, maintenance, fault, reserved, own, peers, *held in rows:
        node, shared = named[node_pk]
        worker, desired, renewing = held
        labels, near = _texts(own), _texts(peers)
        seen.append(
            DeviceSeen(
                device=str(pk),
                node=node,
                kind=_KINDS[kind],
                index=index,
                missing=missing,
                held_by=str(worker) if worker else None,
                leaving=desired not in (None, WorkerDesired.RUN) and not renewing,
                name=name,
                memory_total=memory,
                labels=labels | shared if labels else shared,
                blocked="in maintenance" if maintenance else fault,
                reserved_for=reserved,
                nvlink_peers=frozenset(unique[node_pk, peer] for peer in near if (node_pk, peer) in unique)
                if near
                else near,
            )
        )
    return tuple(seen)


_KINDS = {kind.value: kind for kind in DeviceKind}


@lru_cache(maxsize=1024)
def _texts(encoded: str) -> frozenset[str]:
    """A JSON list of texts. Nearly all devices of a fleet have the same few, so each is read once."""
    return frozenset(json.loads(encoded))
