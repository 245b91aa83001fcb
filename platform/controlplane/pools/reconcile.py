"""Look at one deployment, plan, apply: the same function after every change, after every report, and in the sweep."""

from __future__ import annotations

from django.db import transaction

from controlplane.core.broadcast import broadcast
from controlplane.fleet.models import Node
from controlplane.pools import selectors
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.apply import apply
from controlplane.pools.intents import intents_advance
from controlplane.pools.models import Deployment, Pool
from controlplane.pools.plan import Plan, plan
from inference.contracts.console import DeploymentRemoved


@transaction.atomic
def deployment_reconcile(deployment_id: int) -> Plan | None:
    """Bring what shall run in line with what is wanted; None when there is no such deployment (any more).

    It holds the rows of all nodes while it looks and acts (SQLite has but one writer anyway): so two reconciles never
    see the same free device, and no report changes what the plan is made from. A report waits for milliseconds.
    """
    deployment = Deployment.objects.select_for_update().filter(pk=deployment_id).first()
    if deployment is None:
        return None
    nodes = list(Node.objects.select_for_update())
    seen = selectors.snapshot(deployment, nodes)
    made = plan(seen)
    names = {worker.worker_id: worker.name for worker in seen.workers}
    apply(deployment, made)
    changed = _refusals_record(made, deployment)
    after = selectors.snapshot(deployment, nodes) if made.acts else seen
    gone = [names[move.worker_id] for move in made.remove]
    intents_advance(deployment, after, made, gone=gone)
    if deployment.deleting and not after.workers:
        deployment.delete()
        broadcast(DeploymentRemoved(name=deployment.name))
    elif made.acts or changed:
        deployments_announce([deployment_id])
    if made.remove:
        _offer_freed_devices(deployment_id)
    return made


def _refusals_record(made: Plan, deployment: Deployment) -> bool:
    """Keep with each pool why it lacks workers; whether that is news."""
    changed = 0
    for pool in Pool.objects.filter(deployment=deployment):
        reasons = [each.reason for each in (*made.wait, *made.refused) if each.pool_id == str(pool.pk)]
        changed += (
            Pool.objects.filter(pk=pool.pk).exclude(refusals="\n".join(reasons)).update(refusals="\n".join(reasons))
        )
    return changed > 0


def _offer_freed_devices(deployment_id: int) -> None:
    """Deployments that were refused a device look again."""
    short = selectors.pools_short_of_workers().exclude(deployment_id=deployment_id)
    reconcile_request(short.values_list("deployment_id", flat=True))
