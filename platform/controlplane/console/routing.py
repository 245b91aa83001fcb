"""Addresses of the WebSockets."""

from __future__ import annotations

from django.urls import path

from controlplane.console.consumers import ConsoleConsumer

websocket_urlpatterns = [path("ws/console", ConsoleConsumer.as_asgi())]
