"""Everything the console shows, as of one position of the event stream.

The position is taken before the database is read, and events are appended after their transaction has committed. So
whatever a snapshot does not contain comes as an event behind its position, and snapshot + events is the present state.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from channels.db import database_sync_to_async

from controlplane.catalog.presenters import model_view
from controlplane.catalog.selectors import model_list
from controlplane.console.hub import Hub
from controlplane.fleet.presenters import node_view
from controlplane.fleet.selectors import device_holders, node_list
from controlplane.operations.presenters import operation_views
from controlplane.operations.selectors import operation_list
from controlplane.pools.presenters import deployment_view
from controlplane.pools.selectors import deployment_list
from controlplane.telemetry.stream import BEGINNING, StreamId
from inference.contracts import codec
from inference.contracts.console import Snapshot, SnapshotMessage
from inference.contracts.frames import TelemetryFrame

#: A snapshot so young may be shared between sockets that ask at the same time.
SHARED_S = 1.0


def as_of(hub: Hub) -> tuple[StreamId, tuple[TelemetryFrame, ...]]:
    """Position and frames for a snapshot whose state is read after this. While the stream can't be followed: position
    "0-0" and no frames."""
    return (hub.position, tuple(hub.frames)) if hub.outage is None else (BEGINNING, ())


def read(seq: str, frames: tuple[TelemetryFrame, ...]) -> Snapshot:
    """The state of the database now.

    Raises:
        django.db.Error: the database does not answer.
    """
    holders = device_holders()
    return Snapshot(
        seq=seq,
        deployments=tuple(deployment_view(deployment) for deployment in deployment_list()),
        nodes=tuple(node_view(node, holders) for node in node_list()),
        operations=operation_views(operation_list()),
        models=tuple(model_view(model) for model in model_list()),
        frames=frames,
    )


@dataclass(frozen=True, slots=True)
class Sent:
    """A snapshot in its wire form. epoch: of the hub when it was begun."""

    position: StreamId
    text: str
    epoch: int
    begun: float


class SnapshotDesk:
    """Makes snapshots for the sockets of one hub, one at a time. When Redis comes back everybody asks at once: they
    share one, as long as it holds all that each of them has been sent before."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = asyncio.Lock()
        self._last: Sent | None = None

    async def take(self) -> Sent:
        """
        Raises:
            django.db.Error: the database does not answer.
        """
        asked_at = self._hub.position
        async with self._lock:
            last = self._last
            if last is None or not self._still_good(last, asked_at):
                last = await self._make()
                self._last = last if self._hub.outage is None else None
            return last

    def _still_good(self, sent: Sent, asked_at: StreamId) -> bool:
        return (
            sent.epoch == self._hub.epoch
            and sent.position >= asked_at
            and time.monotonic() - sent.begun < SHARED_S
            and self._hub.outage is None
        )

    async def _make(self) -> Sent:
        epoch, begun = self._hub.epoch, time.monotonic()
        position, frames = as_of(self._hub)
        snapshot = await database_sync_to_async(read)(str(position), frames)
        return Sent(position, codec.encode_text(SnapshotMessage(snapshot=snapshot)), epoch, begun)
