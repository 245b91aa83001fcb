"""Telling consoles how nodes are now."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from controlplane.core.broadcast import broadcast_made
from controlplane.fleet.presenters import node_views
from controlplane.fleet.selectors import node_list
from inference.contracts.console import NodeChanged


def nodes_announce(node_ids: Collection[UUID]) -> None:
    """In a number of queries that does not depend on how many they are."""
    if node_ids:
        ids = set(node_ids)
        broadcast_made(lambda: [NodeChanged(node=view) for view in node_views(node_list().filter(pk__in=ids))])


def node_announce(node_id: UUID) -> None:
    """Also for other apps, after they gave a device to a worker or took it back."""
    nodes_announce([node_id])
