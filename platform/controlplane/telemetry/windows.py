"""Reading the stream of windows that routers and agents write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, NamedTuple

import redis
import structlog

from controlplane.telemetry.merge import place
from controlplane.telemetry.stream import BEGINNING, StreamId, last_id
from inference.contracts import codec, names
from inference.contracts.timings import Window

log = structlog.get_logger()

#: Entries per read: some minutes of a small cluster, a second's work.
BATCH = 5_000


#: A sender that was not told whether Redis took a window sends it again; so long after, as routers keep them.
REPEATED_WITHIN_S = 600


class Arrived(NamedTuple):
    """digest: of the message; equal for a window that was sent twice."""

    position: StreamId
    window: Window
    digest: int


@dataclass(frozen=True, slots=True)
class Batch:
    """last: position after this batch. full: there may be more."""

    arrived: list[Arrived]
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
    arrived = []
    for raw_id, fields in entries:
        position = StreamId.parse(raw_id)
        try:
            message = fields[names.STREAM_FIELD.encode()]
            window = codec.decode(message, Window)
        except (KeyError, codec.CodecError) as error:
            log.warning("window passed over", position=str(position), error=str(error))
            continue
        arrived.append(Arrived(position, place(window, position), hash(message)))
    return Batch(arrived=arrived, last=StreamId.parse(entries[-1][0]) if entries else after, full=len(entries) == BATCH)


class Recent:
    """What arrived lately, to tell what was sent twice: a Redis server that hangs executes every attempt in the end."""

    def __init__(self) -> None:
        self._arrivals: dict[int, int] = {}

    def new(self, arrived: Iterable[Arrived]) -> list[Arrived]:
        """Those that were not noted before, each once."""
        first: dict[int, Arrived] = {}
        for each in arrived:
            if each.digest not in self._arrivals:
                first.setdefault(each.digest, each)
        return list(first.values())

    def note(self, arrived: Sequence[Arrived]) -> None:
        """Remember them, in the order of arrival, and forget what is older than a repetition can be."""
        for each in arrived:
            self._arrivals[each.digest] = each.position.ms
        if arrived:
            horizon = arrived[-1].position.ms - REPEATED_WITHIN_S * 1000
            for digest in list(takewhile(lambda digest: self._arrivals[digest] < horizon, self._arrivals)):
                del self._arrivals[digest]


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
