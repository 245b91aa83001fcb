"""How each process shows that it is up. Every question is answered within a few seconds."""

from __future__ import annotations

import urllib.error
import urllib.request

import redis

from controlplane.core.redis import sync_client


def always() -> bool:
    return True


def http_answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=3) as response:  # noqa: S310  (addresses are our own)
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def redis_answers() -> bool:
    try:
        return bool(sync_client().ping())
    except redis.RedisError:
        return False


def control_worker_answers() -> bool:
    from controlplane.config.celery import app

    try:
        return bool(app.control.ping(timeout=1.0))
    except Exception:
        # Any failure to ask (broker not up, connection reset) means "not yet"; the caller has the deadline.
        return False
