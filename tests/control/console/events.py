"""Small events for the console stream."""

from __future__ import annotations

from controlplane.core.redis import sync_client
from inference.contracts import codec, names
from inference.contracts.console import DeploymentRemoved, TelemetryTick
from inference.contracts.frames import TelemetryFrame


def removed(name: str) -> DeploymentRemoved:
    return DeploymentRemoved(name=name)


def tick(second: int) -> TelemetryTick:
    return TelemetryTick(frame=TelemetryFrame(second=second, deployments=()))


def send(event: object, *, position: str = "*") -> str:
    """Append `event` to the console stream, a tick to that of frames too; its position in the former."""
    entry = {names.STREAM_FIELD: codec.encode(event)}
    if isinstance(event, TelemetryTick):
        sync_client().xadd(names.FRAME_STREAM, entry, id=position)
    given = sync_client().xadd(names.CONSOLE_STREAM, entry, id=position)
    assert isinstance(given, bytes)
    return given.decode()
