"""Redis connections with short deadlines: the control plane must notice an outage in seconds, not hang in it."""

from __future__ import annotations

from functools import cache
from typing import Any

import redis
import redis.asyncio
import redis.asyncio.retry
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

_OPTIONS: dict[str, Any] = {"socket_timeout": 3.0, "socket_connect_timeout": 2.0, "health_check_interval": 15}


@cache
def sync_client() -> redis.Redis:
    """One pooled client per process, for services and tasks. It tries once more, at once: a connection may have died
    idle in the pool; a server that hangs costs two deadlines, not four."""
    return redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 1), **_OPTIONS)


@cache
def quick_client() -> redis.Redis:
    """One pooled client per process, for what is better left out than waited for."""
    quick = {"socket_timeout": 0.3, "socket_connect_timeout": 0.3}
    return redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 1), **{**_OPTIONS, **quick})


def async_client(*, block_s: float = 0.0) -> redis.asyncio.Redis:
    """A client for one event loop, on one connection; `block_s`: longest blocking read it will do. The caller closes
    it. It never reconnects in silence: whoever follows a stream has to know that something may have been missed."""
    options = {**_OPTIONS, "socket_timeout": _OPTIONS["socket_timeout"] + block_s}
    never = redis.asyncio.retry.Retry(NoBackoff(), 0)
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, single_connection_client=True, retry=never, **options)
