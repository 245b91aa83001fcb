"""Writing the record of what operators asked for. One idea a module; this is the list of what other apps may call."""

from __future__ import annotations

from controlplane.operations.cancelling import operation_cancel
from controlplane.operations.ending import operation_finish
from controlplane.operations.expiry import operations_expire
from controlplane.operations.queue import operations_dequeue
from controlplane.operations.reporting import operation_report
from controlplane.operations.retrying import operation_retry
from controlplane.operations.standing import Standing
from controlplane.operations.starting import operation_start
from controlplane.operations.steps import operation_progress, operation_step
from controlplane.operations.sweeping import operations_advance, operations_sweep
from controlplane.operations.workflows import OnConflict, Target

__all__ = [
    "OnConflict",
    "Standing",
    "Target",
    "operation_cancel",
    "operation_finish",
    "operation_progress",
    "operation_report",
    "operation_retry",
    "operation_start",
    "operation_step",
    "operations_advance",
    "operations_dequeue",
    "operations_expire",
    "operations_sweep",
]
