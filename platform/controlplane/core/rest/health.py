"""Is the control plane itself well?"""

from __future__ import annotations

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, JsonResponse
from redis.backoff import NoBackoff
from redis.retry import Retry

log = structlog.get_logger()

REDIS_WITHIN_S = 0.5


def database_problem() -> str | None:
    """What keeps the database from answering. Bounded by its connection timeout."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except (DatabaseError, InterfaceError) as error:
        # The text may name hosts and users: for the log, not for whoever asks without a login.
        log.warning("database does not answer", error=str(error))
        return "The database does not answer."
    return None


def redis_answers() -> bool:
    """Asked on a connection of its own with a short deadline: whoever watches over the process waits for this."""
    options = {"socket_timeout": REDIS_WITHIN_S, "socket_connect_timeout": REDIS_WITHIN_S}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, retry=Retry(NoBackoff(), 0), **options) as client:
            return bool(client.ping())
    except redis.RedisError as error:
        log.debug("Redis does not answer", error=str(error))  # those who need it say so once, louder
        return False


def healthz(request: HttpRequest) -> JsonResponse:
    """200 with `status` "ok", or 503 with the reasons. Needs no login, so it tells nothing else.

    Redis being away is told but is no reason: serving and reading go on, and a restart would not bring it back.
    """
    redis_state = "ok" if redis_answers() else "away"
    if problem := database_problem():
        return JsonResponse({"status": "unavailable", "reasons": [problem], "redis": redis_state}, status=503)
    return JsonResponse({"status": "ok", "redis": redis_state})
