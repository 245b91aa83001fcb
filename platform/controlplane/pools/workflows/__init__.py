"""What operators can ask of deployments, pools, workers and their nodes: one file for each kind of operation.

Each file has the request as it is stored with its operation, the service that checks and records it, what happens when
the operation begins and when it is taken back, and how far it has come, read from what is seen (`Look`). Draining and
retiring nodes look at themselves from the sweep.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.operations.models import Operation
from controlplane.operations.workflows import register
from controlplane.pools.progress import Progress
from controlplane.pools.workflows import (
    delete,
    deploy,
    flip,
    node_drain,
    node_retire,
    rebalance,
    resize,
    restart_worker,
    roll_back,
    roll_out,
)
from controlplane.pools.workflows.look import Look
from inference.contracts.states import OperationKind

#: Of deployments, pools and workers.
_FILES = (deploy, resize, rebalance, flip, roll_out, roll_back, restart_worker, delete)

#: How far a running operation of each kind has come.
PROGRESS: dict[OperationKind, Callable[[Operation, Look], Progress]] = {
    module.WORKFLOW.kind: module.progress for module in _FILES
}


def workflows_register() -> None:
    for module in (*_FILES, node_drain, node_retire):
        register(module.WORKFLOW)
