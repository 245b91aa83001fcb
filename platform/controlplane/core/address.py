"""Where a request comes from."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """The address of whoever called; behind a proxy, what the proxy says (it appends to X-Forwarded-For, so only the
    last entry is its own word, and anything before it is the client's)."""
    if settings.BEHIND_PROXY and (forwarded := request.headers.get("X-Forwarded-For", "")):
        return forwarded.rpartition(",")[2].strip()
    return str(request.META.get("REMOTE_ADDR", ""))
