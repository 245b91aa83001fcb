"""Look at one deployment, plan, apply: the same function after every change, after every report, and in the sweep."""

from __future__ import annotations

from django.db import transaction

from controlplane.core.broadcast import broadcast
from controlplane.pools import selectors
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.apply import apply
from controlplane.pools.flipping import flips_take_back, workers_renew
from controlplane.pools.intents import intents_advance
from controlplane.pools.models import Deployment, PlanningTurn, Pool
from controlplane.pools.plan import plan
from controlplane.pools.plan_types import Plan, Snapshot
from controlplane.pools.rollout import rollout_advance
from controlplane.pools.seeing import own_snapshot, snapshot, workers_seen
from controlplane.pools.workflows.look import Look
from controlplane.pools.workflows.rebalance import budget_now
from inference.contracts.console import DeploymentRemoved


@transaction.atomic
def deployment_reconcile(deployment_id: int) -> Plan | None:
    """Bring what shall run in line with what is wanted; None when there is no such deployment (any more).

    Whoever plans holds the one planning turn, so two plans never see the same free device. Reports go on meanwhile:
    what they change is found by compare-and-set, or seen by the look that they ask for themselves.
    """
    deployment = Deployment.objects.select_for_update().filter(pk=deployment_id).first()
    if deployment is None:
        return None
    flips_take_back(deployment)
    workers_renew(deployment)
    moved = rollout_advance(deployment)
    _take_turn()
    seen, made = _plan(deployment)
    apply(deployment, made)
    changed = _refusals_record(made, deployment)
    workers = workers_seen(deployment) if made.acts else seen.workers
    removed = {move.worker_id for move in made.remove}
    look = Look(
        deployment=deployment,
        pools=seen.pools,
        workers=workers,
        made=made,
        gone=[worker for worker in seen.workers if worker.worker_id in removed],
        rollout=selectors.rollout_of(deployment),
        decision=moved.decision,
    )
    intents_advance(look)
    if deployment.deleting and not workers:
        deployment.delete()
        broadcast(DeploymentRemoved(name=deployment.name))
    elif made.acts or changed or moved.news:
        deployments_announce([deployment_id])
    if made.remove:
        _offer_freed_devices(deployment_id)
    return made


def _plan(deployment: Deployment) -> tuple[Snapshot, Plan]:
    """Most of the time there is nothing to do, and the fleet is not looked at for that."""
    budget = budget_now(deployment)
    own = own_snapshot(deployment, budget=budget)
    made = plan(own)
    if not (made.acts or made.wait or made.refused):
        return own, made
    whole = snapshot(deployment, budget=budget)
    return whole, plan(whole)


def _take_turn() -> None:
    PlanningTurn.objects.select_for_update().get_or_create(pk=PlanningTurn.ONLY)


def _refusals_record(made: Plan, deployment: Deployment) -> bool:
    """Keep with each pool why it lacks workers; whether that is news."""
    changed = False
    for pool in Pool.objects.filter(deployment=deployment):
        reasons = "\n".join(each.reason for each in (*made.wait, *made.refused) if each.pool_id == str(pool.pk))
        if pool.refusals != reasons:
            pool.refusals, changed = reasons, True
            pool.save(update_fields=["refusals"])
    return changed


def _offer_freed_devices(deployment_id: int) -> None:
    """Deployments that were refused a device look again."""
    short = selectors.pools_short_of_workers().exclude(deployment_id=deployment_id)
    reconcile_request(short.values_list("deployment_id", flat=True))
