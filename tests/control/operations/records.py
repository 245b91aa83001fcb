"""An operation with everything but what a test is about."""

from __future__ import annotations

from typing import Any

from controlplane.operations.models import Operation
from controlplane.operations.services import operation_start
from inference.contracts.states import OperationKind


def start(**changes: Any) -> Operation:
    wanted: dict[str, Any] = {
        "kind": OperationKind.RESIZE,
        "target_kind": "pool",
        "target_id": "p1",
        "target_name": "chat / decode",
        "target_generation": 2,
        "title": "Resize decode to 2",
        "requested_by": "ada",
        "reason": "evening traffic",
        "before": "1 replica",
        "after": "2 replicas",
    }
    return operation_start(**(wanted | changes))
