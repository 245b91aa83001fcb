"""What operators change: deployments, the size of pools, workers. Only what is wanted is written.

One idea a module; this is the list of what others may call.
"""

from __future__ import annotations

from controlplane.pools.changing import deployment_change, pool_change
from controlplane.pools.workflows.delete import deployment_delete
from controlplane.pools.workflows.deploy import Shape, deployment_create
from controlplane.pools.workflows.flip import worker_flip
from controlplane.pools.workflows.rebalance import deployment_rebalance
from controlplane.pools.workflows.resize import Resized, pool_resize
from controlplane.pools.workflows.restart_worker import worker_restart
from controlplane.pools.workflows.roll_back import deployment_roll_back
from controlplane.pools.workflows.roll_out import deployment_roll_out, rollout_pause, rollout_resume

__all__ = [
    "Resized",
    "Shape",
    "deployment_change",
    "deployment_create",
    "deployment_delete",
    "deployment_rebalance",
    "deployment_roll_back",
    "deployment_roll_out",
    "pool_change",
    "pool_resize",
    "rollout_pause",
    "rollout_resume",
    "worker_flip",
    "worker_restart",
]
