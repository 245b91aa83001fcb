"""Telling consoles, and the reconciler, that a deployment changed."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.broadcast import broadcast_made
from controlplane.core.enqueue import enqueue
from controlplane.pools import selectors
from controlplane.pools.models import Pool
from controlplane.pools.presenters import deployment_view
from inference.contracts import names
from inference.contracts.console import DeploymentChanged


def deployments_announce(deployment_ids: Iterable[int]) -> None:
    """Send consoles what each deployment is, once this is committed."""
    if ids := set(deployment_ids):
        deployments = selectors.deployment_list().filter(pk__in=ids)
        broadcast_made(lambda: [DeploymentChanged(deployment=deployment_view(each)) for each in deployments])


def reconcile_request(deployment_ids: Iterable[int], *, news: bool = False) -> None:
    """Have each deployment looked at again. A task names one pool of it; the plan is for the whole deployment. news:
    because of what was seen, not of what somebody wants (see `Rounds`)."""
    wanted = set(deployment_ids)
    for pool in Pool.objects.filter(deployment__in=wanted).order_by("deployment_id", "pk"):
        if pool.deployment_id in wanted:
            wanted.remove(pool.deployment_id)
            enqueue(names.TASK_RECONCILE_POOL, str(pool.pk), news)
