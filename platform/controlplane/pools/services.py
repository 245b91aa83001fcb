"""What operators change: deployments, the size of pools, failed workers. Only what is wanted is written here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

import msgspec
import structlog
from django.db import IntegrityError, transaction
from django.db.models import F

from controlplane.catalog.models import Model
from controlplane.catalog.selectors import model_get
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid, NotFound, StaleGeneration
from controlplane.fleet.models import Device, Node
from controlplane.operations.models import Operation
from controlplane.operations.selectors import operation_running
from controlplane.operations.services import Target, operation_start
from controlplane.pools import selectors
from controlplane.pools.intents import DEPLOYMENT, POOL
from controlplane.pools.models import Deployment, Pool, Revision, Worker
from controlplane.pools.node_spec import node_specs_renew
from controlplane.pools.plan import plan
from controlplane.pools.settings_check import settings_check
from inference.contracts.bounds import LARGEST
from inference.contracts.specs import EngineSettings
from inference.contracts.states import OperationKind, Role, WorkerDesired, WorkerPhase

log = structlog.get_logger()

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_RESTARTABLE = frozenset({WorkerPhase.FAILED, WorkerPhase.BACKOFF})


@dataclass(frozen=True, slots=True)
class Resized:
    """operation: the one that runs towards this size; None when the pool had it already and nothing is under way."""

    pool: Pool
    operation: Operation | None


@transaction.atomic
def deployment_create(
    *,
    name: str,
    model: str,
    counts: dict[Role, int],
    requested_by: str,
    local_prefill_tokens: int | None = None,
    settings: EngineSettings | None = None,
) -> tuple[Deployment, Operation]:
    """Serve `model` under `name`, with a pool for each role that has a count above 0.

    Raises:
        Invalid: a value can't be right, or (code "no_capacity") the free devices are too few now; `field` says which.
        Conflict: the name is taken.
    """
    if not _NAME.fullmatch(name):
        raise Invalid(
            "A deployment's name has 1 to 100 letters, digits, dots, dashes or underscores and begins with a letter or "
            f"digit; {name[:120]!r} does not.",
            field="name",
        )
    if local_prefill_tokens is not None and not 0 <= local_prefill_tokens <= LARGEST:
        raise Invalid(
            f"local_prefill_tokens is 0 to {LARGEST}, not {local_prefill_tokens}.", field="local_prefill_tokens"
        )
    _check_counts(counts)
    settings = settings or EngineSettings()
    settings_check(settings)
    now = clock.now()
    deployment = Deployment(name=name, created_at=now)
    first = Revision(
        deployment=deployment,
        number=deployment.stable,
        model=_model(model),
        settings=msgspec.to_builtins(settings),
        created_by=requested_by,
        created_at=now,
    )
    if local_prefill_tokens is not None:
        deployment.local_prefill_tokens = local_prefill_tokens
    try:
        with transaction.atomic():
            deployment.save(force_insert=True)
    except IntegrityError as error:
        leaving = Deployment.objects.filter(name=name, deleting=True).exists()
        state = "is still being deleted" if leaving else "exists already"
        raise Conflict(f"A deployment named {name!r} {state}.", code="name_taken", field="name") from error
    first.save(force_insert=True)
    for role, replicas in counts.items():
        if replicas:
            Pool.objects.create(deployment=deployment, role=role, replicas=replicas)
    _check_capacity(deployment)
    shape = " + ".join(f"{replicas} {role}" for role, replicas in counts.items() if replicas)
    operation = operation_start(
        kind=OperationKind.DEPLOY,
        targets=[Target(DEPLOYMENT, str(deployment.pk), name)],
        title=f"Deploy {name}",
        requested_by=requested_by,
        request={"deployment_id": deployment.pk},
        before="not deployed",
        after=shape,
    )
    log.info("deployment created", deployment=name, model=model, shape=shape, requested_by=requested_by)
    return deployment, operation


def _check_counts(counts: dict[Role, int]) -> None:
    most = Pool._meta.get_field("max_replicas").default
    for role, replicas in counts.items():
        if not 0 <= replicas <= most:
            raise Invalid(f"A pool has 0 to {most} workers, not {replicas}.", field=role)
    prefill, decode, unified = (counts.get(role, 0) for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED))
    if unified and (prefill or decode):
        raise Invalid("Unified workers do both stages: ask for them alone, without prefill or decode.", field="unified")
    if not unified and not prefill:
        raise Invalid("Without unified workers, at least 1 prefill worker is needed.", field="prefill")
    if not unified and not decode:
        raise Invalid("Without unified workers, at least 1 decode worker is needed.", field="decode")


def _model(name: str) -> Model:
    try:
        return model_get(name)
    except NotFound as error:
        raise Invalid(f"The catalogue has no model named {name!r}.", field="model") from error


def _check_capacity(deployment: Deployment) -> None:
    """Ask the planner itself what it would do."""
    made = plan(selectors.snapshot(deployment, list(Node.objects.all())))
    roles = {str(pool.pk): pool.role for pool in deployment.pools.all()}
    for unmet in (*made.refused, *made.wait):
        raise Invalid(f"{unmet.reason}.", code="no_capacity", field=roles[unmet.pool_id])


@transaction.atomic
def pool_resize(*, pool_id: UUID, generation: int, replicas: int, requested_by: str, reason: str = "") -> Resized:
    """Want `replicas` workers in the pool.

    Asking for the size that the pool has already changes nothing and names no generation as stale: the same command
    twice (a double click, a retry) is answered twice alike.

    Raises:
        NotFound: no such pool.
        Invalid: outside the pool's limits, or more than the whole fleet has devices.
        StaleGeneration: somebody changed the pool since `generation`; `current` is what it is now.
        Conflict: the deployment is being deleted.
    """
    pool = selectors.pool_get(pool_id)
    # Two changes of one deployment take turns, so what is checked here is still so when it is written.
    deployment = Deployment.objects.select_for_update().filter(pk=pool.deployment_id).first()
    if deployment is None:
        raise NotFound("pool", str(pool_id))
    pool.refresh_from_db()
    if deployment.deleting:
        raise Conflict(f"{deployment} is being deleted.", code="deleting")
    if replicas == pool.replicas:
        return Resized(pool, operation_running(target_kind=POOL, target_id=str(pool_id)))
    if generation != pool.generation:
        current = {"generation": pool.generation, "replicas": pool.replicas}
        raise StaleGeneration(f"The {pool.role} pool of {deployment}", generation, current)
    _check_replicas(pool, replicas)
    before = pool.replicas
    operation = operation_start(
        kind=OperationKind.RESIZE,
        targets=[Target(POOL, str(pool_id), str(pool))],
        title=f"Resize {pool.role} of {pool.deployment} from {before} to {replicas}",
        requested_by=requested_by,
        request={"pool_id": str(pool_id), "replicas": replicas},
        reason=reason,
        before=_replicas(before),
        after=_replicas(replicas),
    )
    log.info("pool resized", pool=str(pool), before=before, after=replicas, requested_by=requested_by, reason=reason)
    pool.refresh_from_db()
    return Resized(pool, operation)


def _check_replicas(pool: Pool, replicas: int) -> None:
    if not pool.min_replicas <= replicas <= pool.max_replicas:
        limits = f"{pool.min_replicas} to {pool.max_replicas}"
        raise Invalid(f"The {pool.role} pool has {limits} workers, not {replicas}.", field="replicas")
    devices = Device.objects.filter(missing=False).count()
    if replicas > max(devices, pool.replicas):
        raise Invalid(
            f"{_replicas(replicas)} need as many devices, and the fleet has {devices}.",
            code="no_capacity",
            field="replicas",
        )


def _replicas(number: int) -> str:
    return f"{number} {'worker' if number == 1 else 'workers'}"


@transaction.atomic
def deployment_delete(*, name: str, requested_by: str, reason: str = "") -> Operation:
    """Drain and remove all workers of the deployment, then the deployment. Asking again changes nothing.

    Raises:
        NotFound: no such deployment.
    """
    deployment = Deployment.objects.select_for_update().filter(name=name).first()
    if deployment is None:
        raise NotFound("deployment", name)
    target_id = str(deployment.pk)
    under_way = operation_running(target_kind=DEPLOYMENT, target_id=target_id)
    if deployment.deleting and under_way is not None:
        return under_way
    pools = [Target(POOL, str(pool.pk), str(pool)) for pool in deployment.pools.all()]
    workers = Worker.objects.filter(pool__deployment=deployment).count()
    operation = operation_start(
        kind=OperationKind.DELETE,
        targets=[Target(DEPLOYMENT, target_id, name), *pools],
        title=f"Delete {name}",
        requested_by=requested_by,
        request={"deployment_id": deployment.pk},
        reason=reason,
        before=_replicas(workers),
        after="not deployed",
        supersede_all=True,
    )
    log.info("deployment is to go", deployment=name, requested_by=requested_by, reason=reason)
    return operation


@transaction.atomic
def worker_restart(*, worker_id: UUID, requested_by: str) -> Worker:
    """Have a worker that failed, or waits to be started again, started at once with a clean record.

    Raises:
        NotFound: no such worker.
        Conflict: it is in another phase, or on its way out.
    """
    worker = selectors.worker_get(worker_id)
    # The node before its worker, as reports and reconciles lock them: the other order could be a deadlock.
    Node.objects.select_for_update().get(pk=worker.node_id)
    eligible = Worker.objects.filter(pk=worker_id, desired=WorkerDesired.RUN, phase__in=_RESTARTABLE)
    if not eligible.update(restart=F("restart") + 1):
        raise Conflict(
            f"{worker.name} is {worker.phase}"
            f"{'' if worker.desired == WorkerDesired.RUN else ' and on its way out'}; only a worker that failed, or "
            "that waits to be started again, can be restarted.",
            code="not_restartable",
        )
    log.info("worker is to be restarted", worker=worker.name, worker_id=str(worker_id), requested_by=requested_by)
    node_specs_renew([worker.node_id])
    return selectors.worker_get(worker_id)
