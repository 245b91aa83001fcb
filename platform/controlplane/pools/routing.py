"""The table by which routers send requests: built from rows, given a version, published when it changed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec
import redis
import structlog
from django.db import transaction

from controlplane.core import clock, tables
from controlplane.core.locking import locked
from controlplane.pools import selectors
from controlplane.pools.checks.engine import capabilities
from controlplane.pools.models import Deployment, RoutingTableVersion
from inference.contracts import codec, names
from inference.contracts.abilities import Abilities, in_common
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, RoutingTable, WorkerRoute
from inference.contracts.states import NodePhase, Role

log = structlog.get_logger()

#: What a route is made from. The table of a large fleet is built often, and rows as objects would be most of its cost.
_COLUMNS = (
    *("pk", "incarnation", "pool_id", "pool__role", "pool__deployment_id", "revision__number"),
    *("node_id", "node__phase", "http_host", "http_port", "transfer_host", "transfer_port"),
    *("fingerprint", "context_length", "abilities", "load"),
)

_Row = Mapping[str, Any]


def deployment_routes() -> tuple[DeploymentRoute, ...]:
    """Every deployment that is not being deleted, with the workers that take requests: none, while none is ready.
    Those on a silent node stay listed, as out of sight.

    Prefill and decode workers of unlike fingerprints are all listed; a router pairs equal ones only.
    """
    workers: dict[int, list[_Row]] = defaultdict(list)
    for row in selectors.workers_routable().values(*_COLUMNS):
        workers[row["pool__deployment_id"]].append(row)
    deployments = Deployment.objects.filter(deleting=False)
    return tuple(_deployment_route(deployment, workers[deployment.pk]) for deployment in deployments)


def _deployment_route(deployment: Deployment, workers: list[_Row]) -> DeploymentRoute:
    return DeploymentRoute(
        name=deployment.name,
        model_name=deployment.name,
        created=int(deployment.created_at.timestamp()),
        # A request may meet any pair, so the smallest limit counts.
        context_length=min((each["context_length"] for each in workers if each["context_length"]), default=None),
        local_prefill_tokens=deployment.local_prefill_tokens,
        default_max_tokens=deployment.default_max_tokens,
        itl_target_s=deployment.slo_tpot_s,
        policy=deployment.routing,
        embeddings=capabilities(deployment.engine).embeddings,
        abilities=in_common(_abilities(each) for each in workers),
        workers=tuple(_worker_route(worker) for worker in workers),
    )


def _abilities(row: _Row) -> Abilities | None:
    return None if row["abilities"] is None else msgspec.convert(row["abilities"], Abilities)


def _worker_route(row: _Row) -> WorkerRoute:
    transfers = row["transfer_port"] is not None
    return WorkerRoute(
        worker_id=str(row["pk"]),
        incarnation=str(row["incarnation"]),
        pool_id=str(row["pool_id"]),
        node_id=str(row["node_id"]),
        role=Role(row["pool__role"]),
        http=Address(host=row["http_host"], port=row["http_port"]),
        transfer=Address(host=row["transfer_host"], port=row["transfer_port"]) if transfers else None,
        fingerprint=row["fingerprint"],
        kv_blocks_total=None if row["load"] is None else row["load"]["kv_blocks_total"],
        revision=row["revision__number"],
        in_sight=row["node__phase"] == NodePhase.READY,
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
    return locked(RoutingTableVersion.objects).get_or_create(pk=1)[0]


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
