"""The ASGI application: HTTP to Django, /ws/console to Channels."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.config.settings")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402  (apps must be loaded first)
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402

from controlplane.config import staying  # noqa: E402
from controlplane.config.checks import require_sound_settings  # noqa: E402
from controlplane.console.origin import OwnPagesOnly  # noqa: E402
from controlplane.console.routing import websocket_urlpatterns  # noqa: E402
from controlplane.core.rest.limits import BoundedBody  # noqa: E402

require_sound_settings()

application = ProtocolTypeRouter(
    {
        "http": BoundedBody(http),
        "websocket": OwnPagesOnly(AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))),
    }
)

staying.settle()
