"""Which pages may open a socket.

Cookies know nothing of ports, so a page of any other server on this machine would come with our login: what Django's
CSRF check demands of requests is demanded here of sockets.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings


class OwnPagesOnly:
    """Denies a socket whose Origin is neither the address it calls (scheme aside: a proxy may end TLS) nor one of
    CSRF_TRUSTED_ORIGINS."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        answer = self._application if _is_own(scope) else WebsocketDenier.as_asgi()
        return await answer(scope, receive, send)


def _is_own(scope: dict[str, Any]) -> bool:
    headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    try:
        same = bool(host) and urlsplit(origin).netloc == host
    except ValueError:  # a broken IPv6 address
        return False
    return same or origin in settings.CSRF_TRUSTED_ORIGINS
