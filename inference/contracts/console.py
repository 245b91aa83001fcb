"""What the console's socket carries: the snapshot, and the events that keep it current.

The console opens its socket, gets a `Snapshot`, then applies each event whose `seq` is newer. `seq` is the id of the
console stream ("<milliseconds>-<n>"); views are whole objects, so applying one is replacing one.
"""

from __future__ import annotations

import msgspec

from inference.contracts.frames import TelemetryFrame
from inference.contracts.views.fleet import NodeView
from inference.contracts.views.models import ModelView
from inference.contracts.views.operations import OperationView
from inference.contracts.views.pools import DeploymentView


class DeploymentChanged(msgspec.Struct, frozen=True, kw_only=True, tag="deployment.changed"):
    deployment: DeploymentView


class DeploymentRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="deployment.removed"):
    name: str


class NodeChanged(msgspec.Struct, frozen=True, kw_only=True, tag="node.changed"):
    node: NodeView


class OperationChanged(msgspec.Struct, frozen=True, kw_only=True, tag="operation.changed"):
    operation: OperationView


class ModelChanged(msgspec.Struct, frozen=True, kw_only=True, tag="model.changed"):
    model: ModelView


class ModelRemoved(msgspec.Struct, frozen=True, kw_only=True, tag="model.removed"):
    name: str


class TelemetryTick(msgspec.Struct, frozen=True, kw_only=True, tag="telemetry.tick"):
    frame: TelemetryFrame


ConsoleEvent = (
    DeploymentChanged | DeploymentRemoved | NodeChanged | OperationChanged | ModelChanged | ModelRemoved | TelemetryTick
)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the console shows. operations: the newest 50. frames: the last ten minutes."""

    seq: str
    deployments: tuple[DeploymentView, ...]
    nodes: tuple[NodeView, ...]
    operations: tuple[OperationView, ...]
    models: tuple[ModelView, ...]
    frames: tuple[TelemetryFrame, ...]


class SnapshotMessage(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot"):
    """First message on a socket, and again whenever events may have been missed."""

    snapshot: Snapshot


class EventMessage(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    seq: str
    event: ConsoleEvent


class StaleMessage(msgspec.Struct, frozen=True, kw_only=True, tag="stale"):
    """The server can't follow the event stream at the moment; what is shown may be old. A snapshot follows later."""

    reason: str


ConsoleMessage = SnapshotMessage | EventMessage | StaleMessage
