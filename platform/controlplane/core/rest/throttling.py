"""How often one caller may ask: so many reads and writes a minute, counted across processes.

Counts live in Redis. While it is away each process counts for itself: a limit that is looser for a while is better than
a management API that fails when it is needed most. (Not in Django's cache: under ASGI that is a new connection for each
request.)
"""

from __future__ import annotations

import threading
import time

import redis
import structlog
from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from controlplane.core.errors import TooMany
from controlplane.core.principal import Principal
from controlplane.core.redis import quick_client
from inference.contracts.states import PrincipalKind

log = structlog.get_logger()

WINDOW_S = 60
_KEY_PREFIX = "tandem:rate:"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

#: How long an absent Redis is not asked again: each try may cost a connection timeout.
_PAUSE_S = 5.0


class Counter:
    """Counts per name and minute; never raises for the sake of Redis."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._window = -1
        self._own: dict[str, int] = {}
        self._ask_again_at = 0.0

    def count(self, name: str, window: int) -> int:
        """How often `name` was counted in `window`, this time included."""
        if time.monotonic() >= self._ask_again_at:
            try:
                return self._count_together(f"{_KEY_PREFIX}{window}:{name}")
            except redis.RedisError as error:
                self._ask_again_at = time.monotonic() + _PAUSE_S
                log.warning("rate limits count per process: Redis does not answer", error=str(error))
        return self._count_alone(name, window)

    def _count_together(self, key: str) -> int:
        with quick_client().pipeline(transaction=False) as both:
            both.incr(key)
            both.expire(key, 2 * WINDOW_S)
            return int(both.execute()[0])

    def _count_alone(self, name: str, window: int) -> int:
        with self._lock:
            if window != self._window:
                self._window, self._own = window, {}
            self._own[name] = self._own.get(name, 0) + 1
            return self._own[name]


counter = Counter()


class PrincipalThrottle(BaseThrottle):
    """By principal; by address for those who have not said who they are."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """
        Raises:
            TooMany: this caller has used up its requests of this minute.
        """
        kind, limit = ("read", settings.API_READS_PER_MINUTE)
        if request.method not in SAFE:
            kind, limit = ("write", settings.API_WRITES_PER_MINUTE)
        if not limit:
            return True
        now = time.time()
        window = int(now // WINDOW_S)
        by: Principal = view.principal  # type: ignore[attr-defined]  # every view of ours has one
        if counter.count(f"{kind}:{_caller(by)}", window) > limit:
            raise TooMany(
                f"More than {limit:g} {kind}s in one minute; wait, or ask for more at once.",
                code="rate_limited",
                retry_after_s=int((window + 1) * WINDOW_S - now) + 1,
            )
        return True


def _caller(by: Principal) -> str:
    return f"address:{by.address}" if by.kind == PrincipalKind.ANONYMOUS else f"{by.kind}:{by.name}"
