"""When serving keys were last used: routers write it to Redis, this copies it to the rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import cast
from uuid import UUID

import redis
import structlog
from django.db.models import Q

from controlplane.access.models import ServingKey
from controlplane.core.redis import sync_client
from inference.contracts import names

log = structlog.get_logger()

#: A key that is used all the time is not written more often.
_NOTED_EVERY = timedelta(minutes=1)


def key_use_collect(*, now: datetime) -> None:
    """Note the last use of each key that was used since. For the sweep; does nothing while Redis is away."""
    try:
        written = cast("dict[bytes, bytes]", sync_client().hgetall(names.KEY_USE_KEY))
    except redis.RedisError as error:
        log.warning("key use not read; the next sweep will", error=str(error))
        return
    uses = _readable(written, now)
    for row in ServingKey.objects.filter(pk__in=uses).only("pk", "last_used_at"):
        used = uses[row.pk]
        if row.last_used_at is None or used >= row.last_used_at + _NOTED_EVERY:
            # Routers and sweeps run side by side: the later moment stays.
            earlier = Q(last_used_at__isnull=True) | Q(last_used_at__lt=used)
            ServingKey.objects.filter(earlier, pk=row.pk).update(last_used_at=used)


def _readable(written: Mapping[bytes, bytes], now: datetime) -> dict[UUID, datetime]:
    """What can be believed: a router's clock may be ahead, and anything may stand in Redis."""
    uses = {}
    for key_id, second in written.items():
        try:
            uses[UUID(key_id.decode())] = min(datetime.fromtimestamp(int(second), UTC), now)
        except (ValueError, OverflowError, OSError):
            log.warning("unreadable use of a key", key=key_id.decode(errors="replace")[:64])
    return uses
