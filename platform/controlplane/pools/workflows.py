"""What deployments and pools do when their operations begin."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import F

from controlplane.core.errors import NotFound
from controlplane.operations.models import Operation
from controlplane.operations.workflows import Workflow, register
from controlplane.pools.announce import deployments_announce, reconcile_request
from controlplane.pools.models import Deployment, Pool
from inference.contracts.states import OperationKind


def workflows_register() -> None:
    register(Workflow(OperationKind.DEPLOY, begin=_deploy))
    register(Workflow(OperationKind.RESIZE, begin=_resize, supersedes=frozenset({OperationKind.RESIZE})))
    register(Workflow(OperationKind.DELETE, begin=_delete))


def _deploy(operation: Operation) -> None:
    """The rows are there already: the operation is about them."""
    _look_at([operation.request["deployment_id"]])


def _resize(operation: Operation) -> None:
    pool = Pool.objects.filter(pk=operation.request["pool_id"]).first()
    if pool is None:
        raise NotFound("pool", operation.request["pool_id"])
    Pool.objects.filter(pk=pool.pk).update(replicas=operation.request["replicas"], generation=F("generation") + 1)
    _look_at([pool.deployment_id])


def _delete(operation: Operation) -> None:
    Deployment.objects.filter(pk=operation.request["deployment_id"]).update(deleting=True)
    _look_at([operation.request["deployment_id"]])


def _look_at(deployment_ids: Iterable[int]) -> None:
    reconcile_request(deployment_ids)
    deployments_announce(deployment_ids)
