"""DELETE: every worker finishes what it has and goes, then the deployment. Whatever else is under way gives way."""

from __future__ import annotations

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import NotFound
from controlplane.core.locking import locked
from controlplane.operations.models import Operation
from controlplane.operations.selectors import operation_running, targets_under_operation
from controlplane.operations.services import operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools.counts import shape_in_words
from controlplane.pools.models import Deployment, Worker
from controlplane.pools.progress import Progress, deleting_progress
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.targets import (
    DEPLOYMENT,
    WORKER,
    deployment_lock,
    deployment_target,
    look_again,
    pool_target,
    worker_target,
)
from inference.contracts.states import OperationKind


class Request(msgspec.Struct, frozen=True, kw_only=True):
    deployment_id: int


@transaction.atomic
def deployment_delete(*, name: str, requested_by: str, reason: str = "") -> Operation:
    """Drain and remove all workers of the deployment, then the deployment. Asking again changes nothing.

    Raises:
        NotFound: no such deployment.
    """
    deployment = locked(Deployment.objects).filter(name=name).first()
    if deployment is None:
        raise NotFound("deployment", name)
    under_way = operation_running(target_kind=DEPLOYMENT, target_id=str(deployment.pk))
    if deployment.deleting and under_way is not None and under_way.kind == OperationKind.DELETE:
        return under_way
    pools = list(deployment.pools.select_related("deployment"))
    workers = list(Worker.objects.filter(pool__deployment=deployment))
    busy = targets_under_operation(WORKER, (str(worker.pk) for worker in workers))
    shape = shape_in_words({pool.role: sum(worker.pool_id == pool.pk for worker in workers) for pool in pools})
    operation = operation_start(
        kind=OperationKind.DELETE,
        targets=[
            deployment_target(deployment),
            *(pool_target(pool) for pool in pools),
            *(worker_target(worker) for worker in workers if str(worker.pk) in busy),
        ],
        title=f"Delete {name}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(deployment_id=deployment.pk)),
        reason=reason,
        before=shape,
        after="not deployed",
        preview=preview_of(deployment, deleting=True),
        supersede_all=True,
    )
    record(
        action="deployment.delete",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        before={"workers": shape},
        after={"operation": str(operation.pk)},
        reason=reason,
    )
    return operation


def _begin(operation: Operation) -> None:
    deployment = Deployment.objects.filter(pk=msgspec.convert(operation.request, Request).deployment_id).first()
    if deployment is None:
        raise NotFound("deployment", operation.title)
    deployment.deleting = True
    deployment.save(update_fields=["deleting"])
    look_again(deployment)


def progress(operation: Operation, look: Look) -> Progress:
    return deleting_progress(look.pools, look.workers, since=since(operation), gone=look.gone)


WORKFLOW = Workflow(OperationKind.DELETE, begin=_begin, lock=deployment_lock)
