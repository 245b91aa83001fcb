"""Look at one deployment, plan, apply: the same function after every change, after every report, and in the sweep."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction

from controlplane.core.broadcast import broadcast
from controlplane.core.locking import locked
from controlplane.operations.selectors import operations_holding
from controlplane.operations.services import operation_finish
from controlplane.pools import selectors
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.apply import apply
from controlplane.pools.flipping import workers_put_right
from controlplane.pools.intents import intents_advance
from controlplane.pools.models import Deployment, PlanningTurn, Pool
from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.planning.snapshot import PoolSeen, Snapshot
from controlplane.pools.rollout.advance import rollout_advance
from controlplane.pools.routing import routing_table_publish
from controlplane.pools.seeing import own_snapshot, snapshot, workers_seen
from controlplane.pools.workflows.look import Look
from controlplane.pools.workflows.rebalance import budget_now
from controlplane.pools.workflows.targets import DEPLOYMENT, POOL
from inference.contracts.console import DeploymentRemoved
from inference.contracts.states import OperationState


def deployment_reconcile(deployment_id: int) -> Plan | None:
    """Bring what shall run in line with what is wanted, and the routing table in line with what runs.

    None when there is no such deployment (any more).
    """
    made = deployment_look(deployment_id)
    if made is None or not made.acts:
        routing_table_publish()
    return made


def deployment_look(deployment_id: int) -> Plan | None:
    """The same without the table of routers, unless the plan changes who may serve: for those who look at many."""
    workers_put_right(deployment_id)
    return _look(deployment_id)


@transaction.atomic
def _look(deployment_id: int) -> Plan | None:
    """Whoever plans holds the one planning turn, so two plans never see the same free device. Reports go on meanwhile:
    what they change is found by compare-and-set, or seen by the look that they ask for themselves.
    """
    deployment = locked(Deployment.objects).filter(pk=deployment_id).first()
    if deployment is None:
        return None
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
        _end_what_is_left(deployment, seen.pools)
        deployment.delete()
        broadcast(DeploymentRemoved(name=deployment.name))
    elif made.acts or changed or moved.news:
        deployments_announce([deployment_id])
    if made.remove:
        _offer_freed_devices(deployment_id)
    return made


def _end_what_is_left(deployment: Deployment, pools: Sequence[PoolSeen]) -> None:
    """Nobody would look at these any more: at a resize, say, of what is taken away since its deploy was cancelled."""
    concerned = {DEPLOYMENT: [str(deployment.pk)], POOL: [pool.pool_id for pool in pools]}
    for operation in operations_holding(concerned):
        operation_finish(operation, OperationState.FAILED, f"{deployment} was taken away.")


def _plan(deployment: Deployment) -> tuple[Snapshot, Plan]:
    """Most of the time there is nothing to do, and the fleet is not looked at for that."""
    budget = budget_now(deployment)
    own = own_snapshot(deployment, budget=budget)
    made = plan(own)
    if not (made.acts or made.wait or made.refused):
        return own, made
    whole = snapshot(deployment, budget=budget, own=own)
    return whole, plan(whole)


def _take_turn() -> None:
    locked(PlanningTurn.objects).get_or_create(pk=PlanningTurn.ONLY)


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
    reconcile_request(short.values_list("deployment_id", flat=True), news=True)
