"""An operation with everything but what a test is about."""

from __future__ import annotations

from typing import Any

from controlplane.operations.models import Operation
from controlplane.operations.services import Target, operation_start
from inference.contracts.states import OperationKind

P1 = Target("pool", "p1", "chat/decode")
P2 = Target("pool", "p2", "chat/prefill")
CHAT = Target("deployment", "1", "chat")
OTHER = Target("pool", "p9", "code/decode")


def start(*targets: Target, **changes: Any) -> Operation:
    """On pool p1 where no target is given."""
    wanted: dict[str, Any] = {
        "kind": OperationKind.RESIZE,
        "targets": targets or (P1,),
        "title": "Resize decode to 2",
        "requested_by": "ada",
        "request": {"replicas": 2},
        "reason": "evening traffic",
        "before": "1 replica",
        "after": "2 replicas",
    }
    return operation_start(**(wanted | changes))
