"""What an operation will do, worked out from the fleet as it is when asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from controlplane.pools.models import Deployment, Pool, Worker
from controlplane.pools.planning.preview import preview
from controlplane.pools.seeing import snapshot
from inference.contracts.views.operations import OperationPreview


def preview_of(
    deployment: Deployment,
    *,
    counts: Mapping[str, int] | None = None,
    budget: int | None = None,
    deleting: bool | None = None,
    candidate: int | None = None,
) -> OperationPreview:
    """The course to the deployment with these changes. counts: replicas by pool id. candidate: number of the revision
    that all workers shall run."""
    wanted = snapshot(deployment, budget=budget)
    counts = counts or {}
    wanted = replace(
        wanted,
        pools=tuple(replace(pool, replicas=counts.get(pool.pool_id, pool.replicas)) for pool in wanted.pools),
        deleting=wanted.deleting if deleting is None else deleting,
    )
    if candidate is not None:
        wanted = replace(wanted, candidate=candidate, candidate_share=1.0)
    return preview(wanted)


def preview_of_flip(deployment: Deployment, worker: Worker, to: Pool) -> OperationPreview:
    """The course when just this worker changes over to the pool `to`."""
    now = snapshot(deployment)
    grown = {str(worker.pool_id): -1, str(to.pk): 1}
    wanted = replace(
        now,
        pools=tuple(replace(pool, replicas=pool.replicas + grown.get(pool.pool_id, 0)) for pool in now.pools),
        workers=tuple(
            replace(each, pool_id=str(to.pk)) if each.worker_id == str(worker.pk) else each for each in now.workers
        ),
    )
    flip = f"{worker.name} on {worker.node.name}: {worker.pool.role} to {to.role}"
    return msgspec.structs.replace(preview(wanted), flip=(flip,))
