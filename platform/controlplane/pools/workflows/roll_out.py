"""ROLL_OUT: a new revision (another model, model revision or settings) takes over, step by step, while it does
well.

Prefill and decode workers move together, and only workers that match hand KV to each other (F06). What does badly is
taken back by itself; taking it back by hand is cancelling.
"""

from __future__ import annotations

from typing import Any

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_start, operation_step
from controlplane.operations.standing import Standing
from controlplane.operations.workflows import Workflow
from controlplane.pools import selectors
from controlplane.pools.checks.settings import settings_check
from controlplane.pools.models import Deployment, Revision, Rollout
from controlplane.pools.planning.revisions import pairs_of
from controlplane.pools.progress import Progress, revision_progress
from controlplane.pools.rollout.advance import rollout_begin, rollout_drop
from controlplane.pools.rollout.policy import policy_check
from controlplane.pools.rollout.steps import TakeBack, Wait
from controlplane.pools.seeing import pools_seen
from controlplane.pools.workflows.deploy import model_named
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.targets import (
    DEPLOYMENT,
    deployment_lock,
    deployment_locked,
    deployment_target,
    look_again,
)
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.specs import EngineSettings
from inference.contracts.states import OperationKind, OperationState, StepState
from inference.contracts.views.operations import OperationPreview

_NOTE_MAX = 500
_TAKEN_BACK = "taken back"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """model: its name. candidate, replaces: numbers of the new revision and of the stable one, once it has begun.
    taken_back: why, once that was decided; give_up_at: unix second until which it may last."""

    deployment_id: int
    model: str
    model_revision: str
    settings: EngineSettings
    note: str = ""
    candidate: int | None = None
    replaces: int | None = None
    taken_back: str = ""
    give_up_at: float = 0.0


@transaction.atomic
def deployment_roll_out(
    *,
    name: str,
    requested_by: str,
    model: str | None = None,
    model_revision: str | None = None,
    settings: EngineSettings | None = None,
    policy: RolloutPolicy | None = None,
    note: str = "",
    reason: str = "",
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> Operation:
    """Replace what the deployment runs by a new revision; what is None stays as it is. policy: kept for later ones too.

    Raises:
        NotFound: no such deployment.
        Invalid: a value can't be right, or nothing would change.
        Conflict: it is being deleted, or another operation (a roll-out, too) has it.
    """
    deployment = deployment_locked(name=name)
    stable = deployment.stable_revision
    usual = stable.model_revision if model is None else model_named(model, deployment.engine).revision
    wanted = Request(
        deployment_id=deployment.pk,
        model=model or stable.model.name,
        model_revision=usual if model_revision is None else model_revision,
        settings=settings or stable.engine_settings,
        note=note,
    )
    if policy is not None:
        policy_check(policy)
    _check(wanted, stable)
    if policy is not None:
        deployment.rollout_policy = msgspec.to_builtins(policy)
        deployment.save(update_fields=["rollout_policy"])
    operation = operation_start(
        kind=OperationKind.ROLL_OUT,
        targets=[deployment_target(deployment)],
        title=f"Roll out {wanted.model}{f' ({note})' if note else ''} on {deployment}"[:200],
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(wanted),
        reason=reason,
        before=f"revision {stable.number}: {in_words(stable)}",
        after=_changes_in_words(wanted, stable),
        preview=_preview(deployment),
        on_conflict=on_conflict,
    )
    record(
        action="deployment.roll_out",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        before={"revision": stable.number, "model": stable.model.name, "settings": stable.settings},
        after={"model": wanted.model, "settings": wanted.settings, "operation": str(operation.pk)},
        reason=reason,
    )
    return operation


def _preview(deployment: Deployment) -> OperationPreview:
    candidate = selectors.newest_revision(deployment) + 1
    told = preview_of(deployment, candidate=candidate)
    if pairs_of(pools_seen(deployment)) != 1:
        return told
    at_once = f"Revision {candidate} takes all requests at once, without having been tried on some of them"
    return msgspec.structs.replace(told, warnings=(*told.warnings, f"{at_once}: there is nothing to share them with."))


def _check(wanted: Request, stable: Revision) -> None:
    if len(wanted.note) > _NOTE_MAX:
        raise Invalid(f"A note has at most {_NOTE_MAX} characters; this one has {len(wanted.note)}.", field="note")
    settings_check(wanted.settings)
    new = (model_named(wanted.model, stable.deployment.engine).pk, wanted.model_revision, wanted.settings)
    if new == (stable.model_id, stable.model_revision, stable.engine_settings):
        raise Invalid(
            f"Revision {stable.number}, which serves, has this model and these settings already.", code="no_change"
        )


def in_words(revision: Revision) -> str:
    at = f" at {revision.model_revision}" if revision.model_revision else ""
    return f"{revision.model.name}{at}"


def _changes_in_words(wanted: Request, stable: Revision) -> str:
    old, new = msgspec.to_builtins(stable.engine_settings), msgspec.to_builtins(wanted.settings)
    changed = [f"{name} {new[name]}" for name in new if new[name] != old[name]]
    at = f" at {wanted.model_revision}" if wanted.model_revision else ""
    return ", ".join([f"{wanted.model}{at}", *changed])


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    candidate = Revision.objects.create(
        deployment=deployment,
        number=selectors.newest_revision(deployment) + 1,
        model=model_named(request.model, deployment.engine),
        model_revision=request.model_revision,
        settings=msgspec.to_builtins(request.settings),
        note=request.note,
        created_by=operation.requested_by,
        created_at=clock.now(),
    )
    rollout_begin(deployment, candidate, operation_id=operation.pk, judged=True)
    _remember(operation, candidate=candidate.number, replaces=deployment.stable, taken_back="")
    look_again(deployment)


def _remember(operation: Operation, **news: Any) -> None:
    request = msgspec.structs.replace(msgspec.convert(operation.request, Request), **news)
    operation.request = msgspec.to_builtins(request)
    operation.save(update_fields=["request"])


def _cancel(operation: Operation) -> str:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    rollout_drop(deployment)
    look_again(deployment)
    return f"{deployment} goes back to revision {deployment.stable}."


@transaction.atomic
def rollout_pause(*, name: str, requested_by: str) -> Deployment:
    """Keep the roll-out at its present share until it is resumed. Still taken back where it does badly.

    Raises:
        NotFound: no such deployment.
        Conflict: no roll-out is under way.
    """
    return _set_paused(name, requested_by, paused=True)


@transaction.atomic
def rollout_resume(*, name: str, requested_by: str) -> Deployment:
    """Have a paused roll-out go on; its present step has all its time again.

    Raises:
        NotFound: no such deployment.
        Conflict: no roll-out is under way.
    """
    return _set_paused(name, requested_by, paused=False)


def _set_paused(name: str, requested_by: str, *, paused: bool) -> Deployment:
    deployment = deployment_locked(name=name)
    rollout = Rollout.objects.filter(deployment=deployment).first()
    if rollout is None:
        raise Conflict(f"No roll-out is under way on {deployment}.", code="no_rollout")
    if rollout.paused == paused:
        return deployment
    rollout.paused = paused
    rollout.step_at = rollout.step_at if paused else clock.now()
    rollout.save(update_fields=["paused", "step_at"])
    verb = "paused" if paused else "resumed"
    operation = Operation.objects.filter(pk=rollout.operation_id).first()
    if operation is not None:
        operation_step(operation, f"{requested_by} {verb} it at {rollout.share:.0%}")
    record(
        action="deployment.rollout_pause" if paused else "deployment.rollout_resume",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        before={"paused": not paused},
        after={"paused": paused, "share": rollout.share},
    )
    look_again(deployment)
    return deployment


def progress(operation: Operation, look: Look) -> Progress:
    """While the candidate is taken back it goes on, and fails when the stable revision serves everywhere again."""
    if isinstance(look.decision, TakeBack):
        give_up_at = clock.now().timestamp() + look.deployment.policy.step_deadline_s
        _remember(operation, taken_back=look.decision.why, give_up_at=give_up_at)
    request = msgspec.convert(operation.request, Request)
    if request.taken_back:
        return _going_back(operation, request, look)
    if look.deployment.stable == request.candidate:
        return Progress(1.0, (), OperationState.SUCCEEDED, f"Revision {request.candidate} serves.")
    going = revision_progress(look.pools, look.workers, request.candidate or 0, since=since(operation), gone=look.gone)
    return Progress(min(going.share, 0.99), (*_step(look), *going.steps))


def _going_back(operation: Operation, request: Request, look: Look) -> Progress:
    stable = look.deployment.stable
    back = revision_progress(look.pools, look.workers, stable, since=since(operation), gone=look.gone)
    text = f"revision {request.candidate} is taken back"
    if back.state == OperationState.SUCCEEDED:
        told = Standing(_TAKEN_BACK, text, StepState.DONE, request.taken_back)
        outcome = f"Back at revision {stable}: {request.taken_back}."
        return Progress(back.share, (told, *back.steps), OperationState.FAILED, outcome)
    told = Standing(_TAKEN_BACK, text, cause=request.taken_back)
    if clock.now().timestamp() < request.give_up_at:
        return Progress(back.share, (told, *back.steps))
    outcome = f"Revision {stable} is wanted again ({request.taken_back}), and not all workers run it yet."
    return Progress(back.share, (told, *back.steps), OperationState.FAILED, outcome)


def _step(look: Look) -> tuple[Standing, ...]:
    """One step of the operation for each step of the roll-out."""
    rollout = look.rollout
    if rollout is None:
        return ()
    waits = f": {look.decision.why}" if isinstance(look.decision, Wait) else ""
    return (Standing(f"share:{rollout.share:.4f}", f"{rollout.share:.0%} of the workers{waits}"),)


WORKFLOW = Workflow(
    OperationKind.ROLL_OUT, begin=_begin, lock=deployment_lock, cancel=_cancel, retryable=True, expires=False
)
