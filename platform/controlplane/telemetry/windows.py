"""Reading the stream of windows that routers and agents write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
import structlog

from controlplane.telemetry.merge import place
from controlplane.telemetry.stream import BEGINNING, StreamId, last_id
from inference.contracts import codec, names
from inference.contracts.timings import Window

log = structlog.get_logger()

#: Entries per read: some minutes of a small cluster, a second's work.
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Batch:
    """last: position after this batch. full: there may be more."""

    windows: list[tuple[StreamId, Window]]
    last: StreamId
    full: bool


def read(client: redis.Redis, after: StreamId, until_ms: int | None = None) -> Batch:
    """The windows after position `after`, of arrival before `until_ms` (Redis time) when given. What can't be read is
    logged and passed over: it would not be better the next time.

    Raises:
        redis.RedisError: the server does not answer.
    """
    until = "+" if until_ms is None else f"({until_ms}-0"
    entries: Any = client.xrange(names.WINDOW_STREAM, min=f"({after}", max=until, count=BATCH)
    windows = []
    for raw_id, fields in entries:
        position = StreamId.parse(raw_id)
        try:
            window = codec.decode(fields[names.STREAM_FIELD.encode()], Window)
        except (KeyError, codec.CodecError) as error:
            log.warning("window passed over", position=str(position), error=str(error))
            continue
        windows.append((position, place(window, position)))
    return Batch(windows=windows, last=StreamId.parse(entries[-1][0]) if entries else after, full=len(entries) == BATCH)


def newest(client: redis.Redis) -> StreamId:
    """The newest position ever given in this stream; `BEGINNING` when the server holds no such stream.

    Raises:
        redis.RedisError: the server does not answer.
    """
    try:
        info: Any = client.xinfo_stream(names.WINDOW_STREAM)
    except redis.ResponseError:  # no such key
        return BEGINNING
    return last_id(info)
