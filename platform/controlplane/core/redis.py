"""Redis connections with short deadlines: the control plane must notice an outage in seconds, not hang in it."""

from __future__ import annotations

from functools import cache

import redis
import redis.asyncio
from django.conf import settings

_OPTIONS = {"socket_timeout": 3.0, "socket_connect_timeout": 2.0, "health_check_interval": 15}


@cache
def sync_client() -> redis.Redis:
    """One pooled client per process, for services and tasks."""
    return redis.Redis.from_url(settings.REDIS_URL, **_OPTIONS)


def async_client(*, block_s: float = 0.0) -> redis.asyncio.Redis:
    """A client for one event loop; `block_s`: longest blocking read it will do. The caller closes it."""
    options = {**_OPTIONS, "socket_timeout": _OPTIONS["socket_timeout"] + block_s}
    return redis.asyncio.Redis.from_url(settings.REDIS_URL, **options)
