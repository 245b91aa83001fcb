"""Reading nodes and devices."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import QuerySet

from controlplane.core.errors import NotFound
from controlplane.fleet.models import Device, Node


def node_list() -> QuerySet[Node]:
    """By name, with their devices."""
    return Node.objects.prefetch_related("devices")


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
