"""Reading nodes and devices."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from controlplane.core import clock
from controlplane.core.errors import NotFound
from controlplane.fleet.models import Device, JoinToken, Link, Node
from inference.contracts.states import NodeDesired


def node_list() -> QuerySet[Node]:
    """By name, with their devices and the number of their workers (rows that the pools app hangs on them)."""
    return Node.objects.prefetch_related("devices").annotate(worker_count=Count("workers")).order_by("name")


def node_get(node_id: UUID) -> Node:
    """
    Raises:
        NotFound: no node has this id.
    """
    node = node_list().filter(pk=node_id).first()
    if node is None:
        raise NotFound("node", str(node_id))
    return node


def device_holders(nodes: Iterable[Node] | None = None) -> dict[int, str]:
    """Device row -> id of the worker that holds it, for `nodes` or for all. Free devices are left out.

    Follows the row that the pools app hangs on a device, by name: this app knows nothing of workers.
    """
    held = Device.objects.filter(allocation__isnull=False)
    if nodes is not None:
        held = held.filter(node__in=list(nodes))
    return {pk: str(worker_id) for pk, worker_id in held.values_list("pk", "allocation__worker_id")}


def join_tokens_open() -> QuerySet[JoinToken]:
    """Tokens that can still be used, the newest first."""
    return JoinToken.objects.filter(used_at__isnull=True, expires_at__gt=clock.now())


def link_list() -> QuerySet[Link]:
    """By the names of both ends; none of a retired node."""
    gone = Q(source__desired=NodeDesired.RETIRED) | Q(target__desired=NodeDesired.RETIRED)
    return Link.objects.exclude(gone).select_related("source", "target")


def device_get(device_id: int) -> Device:
    """
    Raises:
        NotFound: no device has this id.
    """
    device = Device.objects.select_related("node").filter(pk=device_id).first()
    if device is None:
        raise NotFound("device", str(device_id))
    return device
