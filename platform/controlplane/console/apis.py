"""REST: the snapshot, and where clients reach the serving API."""

from __future__ import annotations

import msgspec
from asgiref.sync import async_to_sync
from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.console import snapshot
from controlplane.console.feed import feed_of_this_loop
from controlplane.core import principal
from controlplane.core.errors import Forbidden
from controlplane.core.rest.api import answer
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from controlplane.telemetry.stream import StreamId
from inference.contracts import codec
from inference.contracts.console import Snapshot
from inference.contracts.frames import TelemetryFrame


class PlaygroundInfo(msgspec.Struct, frozen=True, kw_only=True):
    """serving_url: base address of the OpenAI-compatible API, as clients reach it."""

    serving_url: str


class SnapshotApi(ControlView):
    @documented("Show everything", answers={200: Snapshot})
    def get(self, request: Request) -> HttpResponse:
        """What the console's socket sends first; `seq` is where its events go on (`/ws/console?after=<seq>`)."""
        if principal.current().only is not None:
            raise Forbidden(
                "Who may see some deployments only sees no snapshot of all; use the lists.", code="forbidden"
            )
        position, frames = async_to_sync(_as_of_now)()
        return HttpResponse(
            codec.encode(snapshot.read(str(position), frames)),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )


class PlaygroundInfoApi(ControlView):
    @documented("Show the serving address", answers={200: PlaygroundInfo})
    def get(self, request: Request) -> Response:
        return answer(PlaygroundInfo(serving_url=settings.PUBLIC_ROUTER_URL))


async def _as_of_now() -> tuple[StreamId, tuple[TelemetryFrame, ...]]:
    hub = feed_of_this_loop().hub
    async with hub.subscribe():
        return snapshot.as_of(hub)
