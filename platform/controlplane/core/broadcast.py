"""Console events: one typed event per change, appended to the console stream once the change is committed.

Events are sent only from services. A lost event (Redis away) costs nothing lasting: consoles take a fresh snapshot when
the stream is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import redis
import structlog
from django.db import transaction

from controlplane.core.redis import sync_client
from inference.contracts import codec, names
from inference.contracts.console import ConsoleEvent, TelemetryTick

log = structlog.get_logger()


def broadcast(event: ConsoleEvent) -> None:
    """Append `event` after the running transaction commits; at once outside of one."""
    transaction.on_commit(partial(append, event))


def broadcast_made(make: Callable[[], Iterable[ConsoleEvent]]) -> None:
    """The same for events that cost something to make: `make` is called after the commit, so nobody waits for it who
    needs the rows, or is told something by the transaction itself. One that fails is logged and costs an event."""
    transaction.on_commit(lambda: append_all(make()), robust=True)


def append(event: ConsoleEvent) -> None:
    append_all((event,))


def append_all(events: Iterable[ConsoleEvent]) -> None:
    """A tick goes into the stream of frames too, in one step: who reads both at once finds it in both or in neither."""
    try:
        with sync_client().pipeline(transaction=True) as pipeline:
            for event in events:
                entry: Any = {names.STREAM_FIELD: codec.encode(event)}
                pipeline.xadd(names.CONSOLE_STREAM, entry, maxlen=names.CONSOLE_STREAM_MAXLEN, approximate=True)
                if isinstance(event, TelemetryTick):
                    pipeline.xadd(names.FRAME_STREAM, entry, maxlen=names.FRAME_STREAM_MAXLEN, approximate=True)
            pipeline.execute()
    except redis.RedisError as error:
        log.warning("console event not sent; consoles will take a snapshot", error=str(error))
