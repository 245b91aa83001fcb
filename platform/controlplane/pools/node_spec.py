"""What a node shall run, as one whole message: built from rows, sent to the node's own queue.

A spec carries everything, so any later one replaces it. None of them expires: an expiry is a clock reading of the
sender, and a node whose clock is ahead would throw every spec away (F14). Instead a spec is sent again only while none
waits in the node's queue, so an agent that consumes nothing can't be buried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from controlplane.core.bulk import rows_write
from controlplane.core.enqueue import enqueue
from controlplane.core.locking import locked
from controlplane.core.redis import sync_client
from controlplane.fleet.models import Node
from controlplane.fleet.services import links_wanted, message_args, nodes_announce, report_interval_s, weights_wanted
from controlplane.pools.memory import bytes_to_start
from controlplane.pools.models import Worker
from inference.contracts import codec, names
from inference.contracts.specs import DeviceAssignment, NodeSpec, WorkerSpec
from inference.contracts.states import DeviceKind, NodeDesired, NodePhase, Role, WorkerDesired

log = structlog.get_logger()

#: Specs sent again in one transaction. It bounds how long the rows of nodes stay locked.
_RESENT_TOGETHER = 100


def nodes_lock(node_ids: Collection[UUID]) -> list[Node]:
    """Lock these nodes' rows, which comes before any of their workers: reports do the same. By name, as everywhere, so
    that two who want several never wait for each other."""
    return list(locked(Node.objects).filter(pk__in=node_ids))


def node_specs(nodes: Sequence[Node]) -> list[NodeSpec]:
    """Everything that each of `nodes` shall run: nothing, when it was retired. Their rows are to be locked, so that
    generation and workers belong together."""
    workers: dict[UUID, list[WorkerSpec]] = defaultdict(list)
    wanted = (
        Worker.objects.filter(node__in=nodes)
        .exclude(Q(desired=WorkerDesired.STOP) | Q(node__desired=NodeDesired.RETIRED))
        .select_related("pool__deployment", "revision__model")
        .prefetch_related("allocations__device")
        .order_by("pk")
    )
    for worker in wanted:
        workers[worker.node_id].append(_worker_spec(worker))
    ids = [node.pk for node in nodes if node.desired != NodeDesired.RETIRED]
    weights, links = weights_wanted(ids), links_wanted(ids)
    return [
        NodeSpec(
            node_id=str(node.pk),
            generation=node.generation,
            workers=tuple(workers[node.pk]),
            weights=weights.get(node.pk, ()),
            links=links.get(node.pk, ()),
            report_interval_s=node.report_interval_s,
        )
        for node in nodes
    ]


def _worker_spec(worker: Worker) -> WorkerSpec:
    deployment = worker.pool.deployment
    devices = sorted((allocation.device for allocation in worker.allocations.all()), key=lambda device: device.index)
    return WorkerSpec(
        worker_id=str(worker.pk),
        incarnation=str(worker.incarnation),
        deployment=deployment.name,
        pool_id=str(worker.pool_id),
        role=Role(worker.pool.role),
        desired=WorkerDesired(worker.desired),
        model_path=worker.revision.model.path,
        model_name=deployment.name,
        devices=tuple(
            DeviceAssignment(
                device_id=device.device_id, kind=device.kind, index=device.index, cores=device.core_numbers
            )
            for device in devices
        ),
        engine=deployment.engine,
        settings=worker.revision.engine_settings,
        restart=worker.restart,
        drain_deadline_s=settings.DRAIN_DEADLINE_S,
        revision=worker.revision.number,
        model_revision=worker.revision.model_revision,
        memory_bytes=bytes_to_start(worker.revision, [DeviceKind(device.kind) for device in devices]),
    )


@transaction.atomic
def node_specs_renew(node_ids: Collection[UUID]) -> None:
    """Give each node a new generation of what it shall run, sent once the transaction is committed."""
    nodes, interval = nodes_lock(node_ids), report_interval_s()
    for node in nodes:
        node.generation += 1
        node.report_interval_s = interval
    rows_write(nodes, ["generation", "report_interval_s"])
    _send(nodes)
    nodes_announce([node.pk for node in nodes])


def node_specs_resend() -> None:
    """For the sweep: send again what a reporting node has not applied and no longer has waiting (Redis lost it, or was
    away when it was sent; F12)."""
    ours = Node.objects.exclude(desired=NodeDesired.RETIRED)
    behind = ours.filter(phase=NodePhase.READY, observed_generation__lt=F("generation"))
    ids = list(behind.order_by("pk").values_list("pk", flat=True))
    for at in range(0, len(ids), _RESENT_TOGETHER):
        some = ids[at : at + _RESENT_TOGETHER]
        try:
            waiting = _waiting(some)
        except redis.RedisError as error:
            log.warning("specs not sent again: Redis is away", error=str(error))
            return
        _send_again([pk for pk, count in zip(some, waiting, strict=True) if not count])


def _waiting(node_ids: Sequence[UUID]) -> list[int]:
    """Messages in the queue of each node."""
    with sync_client().pipeline(transaction=False) as pipeline:
        for pk in node_ids:
            pipeline.llen(names.node_queue(str(pk)))
        return pipeline.execute()


@transaction.atomic
def _send_again(node_ids: Collection[UUID]) -> None:
    # Some may have been heard meanwhile.
    nodes = [node for node in nodes_lock(node_ids) if node.observed_generation < node.generation]
    for node in nodes:
        log.info("spec sent again", node=node.name, generation=node.generation, observed=node.observed_generation)
    _send(nodes)


def _send(nodes: Sequence[Node]) -> None:
    """A waiting message of a node's Celery queue is an element of the Redis list of that name."""
    for node, spec in zip(nodes, node_specs(nodes), strict=True):
        task = names.TASK_APPLY_NODE_SPEC
        enqueue(task, *message_args(node, task, codec.encode_text(spec)), queue=names.node_queue(spec.node_id))
