"""The hub and the snapshots of this event loop. An ASGI process has one loop, so it has one of each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from controlplane.console.hub import Hub, Limits
from controlplane.console.snapshot import SnapshotDesk
from controlplane.core.redis import async_client


@dataclass(frozen=True, slots=True)
class Feed:
    hub: Hub
    desk: SnapshotDesk


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()


def feed_of_this_loop() -> Feed:
    """Nothing runs in it until somebody subscribes."""
    loop = asyncio.get_running_loop()
    feed = _feeds.get(loop)
    if feed is None:
        limits = Limits()
        hub = Hub(lambda: async_client(block_s=limits.block_s), limits)
        feed = _feeds[loop] = Feed(hub, SnapshotDesk(hub))
    return feed
