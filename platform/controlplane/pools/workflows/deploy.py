"""DEPLOY: a model is served under a name, by workers of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
import structlog
from django.db import IntegrityError, transaction
from django.db.models import F

from controlplane.audit.services import record
from controlplane.catalog.models import Model
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.locking import locked
from controlplane.fleet.models import Device
from controlplane.fleet.services import links_needed
from controlplane.operations.models import Operation
from controlplane.operations.services import operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools.checks.deployment import local_prefill_check, routing_check, slo_check
from controlplane.pools.checks.engine import capabilities, tensor_parallel_check
from controlplane.pools.checks.pool import labels_check, strategy_check
from controlplane.pools.checks.settings import settings_check
from controlplane.pools.counts import shape_in_words
from controlplane.pools.models import Deployment, Pool, Revision, Worker
from controlplane.pools.node_spec import node_specs_renew, nodes_lock
from controlplane.pools.planning.changes import Plan
from controlplane.pools.planning.plan import plan
from controlplane.pools.progress import Progress, scaling_progress
from controlplane.pools.rollout.policy import policy_check
from controlplane.pools.seeing import snapshot
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.targets import (
    DEPLOYMENT,
    deployment_lock,
    deployment_locked,
    deployment_target,
    look_again,
)
from inference.contracts.engines import NATIVE
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.routing_policy import RoutingPolicy
from inference.contracts.specs import EngineSettings
from inference.contracts.states import OperationKind, Role, WorkerDesired, WorkerPhase

log = structlog.get_logger()

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    deployment_id: int


@dataclass(frozen=True, slots=True)
class Shape:
    """How the workers of a new deployment are to be placed. counts: workers by role. labels: by role, what their
    devices must have."""

    counts: Mapping[Role, int]
    labels: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    tensor_parallel: int = 1
    strategy: str = "spread"


@transaction.atomic
def deployment_create(
    *,
    name: str,
    model: str,
    shape: Shape,
    requested_by: str,
    model_revision: str = "",
    engine: str = NATIVE,
    local_prefill_tokens: int | None = None,
    settings: EngineSettings | None = None,
    slo_ttft_s: float | None = None,
    slo_tpot_s: float | None = None,
    policy: RolloutPolicy | None = None,
    routing: RoutingPolicy | None = None,
    reason: str = "",
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
    local_prefill_check(local_prefill_tokens)
    slo_check(slo_ttft_s=slo_ttft_s, slo_tpot_s=slo_tpot_s)
    capabilities(engine)
    _check_shape(shape, engine)
    settings, policy, routing = settings or EngineSettings(), policy or RolloutPolicy(), routing or RoutingPolicy()
    settings_check(settings)
    policy_check(policy)
    routing_check(routing)
    deployment = Deployment(
        name=name,
        engine=engine,
        rollout_policy=msgspec.to_builtins(policy),
        routing_policy=msgspec.to_builtins(routing),
        slo_ttft_s=slo_ttft_s,
        slo_tpot_s=slo_tpot_s,
        created_at=clock.now(),
    )
    if local_prefill_tokens is not None:
        deployment.local_prefill_tokens = local_prefill_tokens
    served = model_named(model, engine)
    first = Revision(
        deployment=deployment,
        number=deployment.stable,
        model=served,
        model_revision=model_revision or served.revision,
        settings=msgspec.to_builtins(settings),
        created_by=requested_by,
        created_at=deployment.created_at,
    )
    _save(deployment, first, shape)
    _measure_network(_check_capacity(deployment))
    in_words = shape_in_words(shape.counts)
    operation = operation_start(
        kind=OperationKind.DEPLOY,
        targets=[deployment_target(deployment)],
        title=f"Deploy {name}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(deployment_id=deployment.pk)),
        reason=reason,
        before="not deployed",
        after=in_words,
        preview=preview_of(deployment),
    )
    record(
        action="deployment.create",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        after={"model": model, "engine": engine, "shape": in_words, "settings": settings, "operation": operation.pk},
        reason=reason,
    )
    log.info("deployment created", deployment=name, model=model, shape=in_words, requested_by=requested_by)
    return deployment, operation


def _save(deployment: Deployment, first: Revision, shape: Shape) -> None:
    """
    Raises:
        Conflict: the name is taken.
    """
    try:
        with transaction.atomic():
            deployment.save(force_insert=True)
    except IntegrityError as error:
        leaving = Deployment.objects.filter(name=deployment.name, deleting=True).exists()
        state = "is still being deleted" if leaving else "exists already"
        raise Conflict(f"A deployment named {deployment.name!r} {state}.", code="name_taken", field="name") from error
    first.save(force_insert=True)
    for role, replicas in shape.counts.items():
        if replicas:
            Pool.objects.create(
                deployment=deployment,
                role=role,
                replicas=replicas,
                labels=list(shape.labels.get(role, ())),
                tensor_parallel=shape.tensor_parallel,
                strategy=shape.strategy,
            )


def _check_shape(shape: Shape, engine: str) -> None:
    most = Pool._meta.get_field("max_replicas").default
    for role, replicas in shape.counts.items():
        if not 0 <= replicas <= most:
            raise Invalid(f"A pool has 0 to {most} workers, not {replicas}.", field=role)
    prefill, decode, unified = (shape.counts.get(role, 0) for role in (Role.PREFILL, Role.DECODE, Role.UNIFIED))
    if unified and (prefill or decode):
        raise Invalid("Unified workers do both stages: ask for them alone, without prefill or decode.", field="unified")
    if not unified and not prefill:
        raise Invalid("Without unified workers, at least 1 prefill worker is needed.", field="prefill")
    if not unified and not decode:
        raise Invalid("Without unified workers, at least 1 decode worker is needed.", field="decode")
    tensor_parallel_check(engine, shape.tensor_parallel)
    strategy_check(shape.strategy)
    for labels in shape.labels.values():
        labels_check(labels)


def model_named(name: str, engine: str) -> Model:
    """The model, locked: it stays in the catalogue until what refers to it is committed.

    Raises:
        Invalid: the catalogue has no such model, or (code "not_supported") it is known that the engine can't serve it.
    """
    model = locked(Model.objects).filter(name=name).first()
    if model is None:
        raise Invalid(f"The catalogue has no model named {name!r}.", field="model")
    shape = model.known_shape
    if shape is not None and (reason := (shape.engines or {}).get(engine)):
        raise Invalid(f"The {engine} engine can't serve {name}: {reason}.", code="not_supported", field="model")
    return model


def _check_capacity(deployment: Deployment) -> Plan:
    """Ask the planner itself what it would do."""
    made = plan(snapshot(deployment))
    roles = {str(pool.pk): pool.role for pool in deployment.pools.all()}
    for unmet in (*made.refused, *made.wait):
        raise Invalid(f"{unmet.reason}.", code="no_capacity", field=roles[unmet.pool_id])
    return made


def _measure_network(made: Plan) -> None:
    """KV will travel between the nodes that it will start on; what is not known of their network is measured, once this
    is committed, in no hurry."""
    devices = [int(start.devices[0]) for start in made.start]
    nodes = set(Device.objects.filter(pk__in=devices).values_list("node_id", flat=True))
    if len(nodes) > 1:
        transaction.on_commit(partial(links_needed, nodes), robust=True)


def _begin(operation: Operation) -> None:
    """The rows are there already: the operation is about them. Tried again, it starts workers that failed anew."""
    deployment = deployment_locked(pk=msgspec.convert(operation.request, Request).deployment_id)
    failed = Worker.objects.filter(
        pool__deployment=deployment, desired=WorkerDesired.RUN, phase__in=[WorkerPhase.FAILED, WorkerPhase.BACKOFF]
    )
    if nodes := set(failed.values_list("node_id", flat=True)):
        nodes_lock(nodes)
        failed.update(restart=F("restart") + 1)
        node_specs_renew(nodes)
    look_again(deployment)


def _cancel(operation: Operation) -> str:
    deployment = deployment_locked(pk=msgspec.convert(operation.request, Request).deployment_id)
    deployment.deleting = True
    deployment.save(update_fields=["deleting"])
    look_again(deployment)
    return f"{deployment} is taken away again."


def progress(operation: Operation, look: Look) -> Progress:
    return scaling_progress(
        look.pools,
        look.workers,
        unmet=look.unmet(list(look.roles)),
        since=since(operation),
        gone=look.gone,
        conflict=look.conflict(),
    )


WORKFLOW = Workflow(OperationKind.DEPLOY, begin=_begin, lock=deployment_lock, cancel=_cancel, retryable=True)
