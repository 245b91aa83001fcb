"""The table by which routers send requests: built from rows, given a version, published when it changed."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import redis
import structlog
from django.db import transaction

from controlplane.core import clock, tables
from controlplane.pools import selectors
from controlplane.pools.models import Deployment, RoutingTableVersion, Worker
from inference.contracts import codec, names
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, RoutingTable, WorkerRoute
from inference.contracts.states import Role

log = structlog.get_logger()


def deployment_routes() -> tuple[DeploymentRoute, ...]:
    """Every deployment that is not being deleted, with the workers that take requests: none, while none is ready.

    Prefill and decode workers of unlike fingerprints are all listed; a router pairs equal ones only.
    """
    workers: dict[int, list[Worker]] = defaultdict(list)
    for worker in selectors.workers_routable():
        workers[worker.pool.deployment_id].append(worker)
    deployments = Deployment.objects.filter(deleting=False)
    return tuple(_deployment_route(deployment, workers[deployment.pk]) for deployment in deployments)


def _deployment_route(deployment: Deployment, workers: list[Worker]) -> DeploymentRoute:
    return DeploymentRoute(
        name=deployment.name,
        model_name=deployment.name,
        created=int(deployment.created_at.timestamp()),
        # A request may meet any pair, so the smallest limit counts.
        context_length=min((each.context_length for each in workers if each.context_length), default=None),
        local_prefill_tokens=deployment.local_prefill_tokens,
        default_max_tokens=deployment.default_max_tokens,
        workers=tuple(_worker_route(worker) for worker in workers),
    )


def _worker_route(worker: Worker) -> WorkerRoute:
    load = worker.known_load
    return WorkerRoute(
        worker_id=str(worker.pk),
        incarnation=str(worker.incarnation),
        pool_id=str(worker.pool_id),
        node_id=str(worker.node_id),
        role=Role(worker.pool.role),
        http=Address(host=worker.http_host, port=worker.http_port or 0),
        transfer=Address(host=worker.transfer_host, port=worker.transfer_port) if worker.transfer_port else None,
        fingerprint=worker.fingerprint,
        kv_blocks_total=None if load is None else load.kv_blocks_total,
        revision=worker.revision.number,
    )


@transaction.atomic
def routing_table_publish() -> RoutingTable | None:
    """Give the table a new version and send it once the transaction is committed; None when nothing changed."""
    row = _locked_version()
    routes = deployment_routes()
    return _publish(row, routes, above=row.version) if _digest(routes) != row.digest else None


def routing_table_refresh() -> None:
    """For the sweep: publish again if Redis does not hold what the rows say. It may have been away or have lost its
    data; or it holds a table from before the database was restored from an older copy, which must be outdone."""
    try:
        held = tables.read(names.ROUTING_TABLE_KEY, RoutingTable)
    except redis.RedisError as error:
        log.warning("routing table not checked: Redis is away", error=str(error))
        return
    with transaction.atomic():
        row = _locked_version()
        routes = deployment_routes()
        if held is None or held.deployments != routes:
            _publish(row, routes, above=max(row.version, held.version if held else 0))


def _locked_version() -> RoutingTableVersion:
    """The lock comes before the workers are read: a higher version always holds the newer state."""
    return RoutingTableVersion.objects.select_for_update().get_or_create(pk=1)[0]


def _publish(row: RoutingTableVersion, routes: tuple[DeploymentRoute, ...], *, above: int) -> RoutingTable:
    row.version = tables.next_version(above, clock.now())
    row.digest = _digest(routes)
    row.save(update_fields=["version", "digest"])
    table = RoutingTable(version=row.version, deployments=routes)
    tables.publish(names.ROUTING_TABLE_KEY, table)
    log.info("routing table published", version=row.version, workers=sum(len(route.workers) for route in routes))
    return table


def _digest(routes: tuple[DeploymentRoute, ...]) -> str:
    return hashlib.sha256(codec.encode(routes)).hexdigest()
