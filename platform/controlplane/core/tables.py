"""Publishing the tables that routers read: the last one under a Redis key, and a channel that says "look again".

Two processes may publish at once, so Redis keeps the higher version; a table sent late never replaces a newer one.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TypeVar

import redis
import structlog
from django.db import transaction

from controlplane.core.redis import sync_client
from inference.contracts import codec, names
from inference.contracts.routing import KeyTable, RoutingTable

log = structlog.get_logger()

Table = TypeVar("Table", KeyTable, RoutingTable)

_SET_IF_NEWER = """
local held = redis.call('GET', KEYS[1])
local read, table = pcall(cjson.decode, held or '{}')
if read and table.version and table.version >= tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], KEYS[1])
return 1
"""


def next_version(last: int, moment: datetime) -> int:
    """A version above `last`. It follows the clock in milliseconds, so that it also grows past versions given out
    before the database was restored from an older copy."""
    return max(last + 1, int(moment.timestamp() * 1000))


def publish(key: str, table: KeyTable | RoutingTable) -> None:
    """Write `table` to `key` after the running transaction commits; at once outside of one."""
    transaction.on_commit(partial(_write, key, table))


def _write(key: str, table: KeyTable | RoutingTable) -> None:
    try:
        sync_client().eval(
            _SET_IF_NEWER, 1, key, str(table.version), codec.encode_text(table), names.ROUTING_TABLE_CHANNEL
        )
    except redis.RedisError as error:
        log.warning("table not published; the sweep will catch up", key=key, error=str(error))


def read(key: str, kind: type[Table]) -> Table | None:
    """The table now under `key`; None when there is none or it can't be read.

    Raises:
        redis.RedisError: Redis is away.
    """
    written = sync_client().get(key)
    try:
        return codec.decode(written, kind) if isinstance(written, bytes) else None
    except codec.CodecError:
        return None
