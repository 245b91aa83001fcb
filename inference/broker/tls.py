"""TLS of Celery's connections to Redis."""

from __future__ import annotations

import ssl
from typing import Any


def broker_tls(redis_url: str) -> dict[str, Any] | None:
    """Celery's `broker_use_ssl`. Left to itself, Celery takes any certificate from a rediss:// server.

    Whom to trust is the system's list of authorities, or the file that SSL_CERT_FILE names.
    """
    if not redis_url.startswith("rediss://"):
        return None
    return {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
