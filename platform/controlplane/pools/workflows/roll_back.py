"""ROLL_BACK: an earlier revision serves again, everywhere at once. A roll-out that is under way gives way to it."""

from __future__ import annotations

import msgspec
from django.db import transaction

from controlplane.audit.services import record
from controlplane.core.errors import Conflict, Invalid
from controlplane.operations.models import Operation
from controlplane.operations.services import OnConflict, operation_start
from controlplane.operations.workflows import Workflow
from controlplane.pools import selectors
from controlplane.pools.models import Deployment
from controlplane.pools.progress import Progress, revision_progress
from controlplane.pools.rollout.advance import rollout_begin, rollout_drop
from controlplane.pools.rollout.steps import TakeBack
from controlplane.pools.workflows.look import Look, since
from controlplane.pools.workflows.previews import preview_of
from controlplane.pools.workflows.roll_out import in_words
from controlplane.pools.workflows.targets import (
    DEPLOYMENT,
    deployment_lock,
    deployment_locked,
    deployment_target,
    look_again,
)
from inference.contracts.states import OperationKind, OperationState


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """to: number of the revision."""

    deployment_id: int
    to: int


@transaction.atomic
def deployment_roll_back(
    *,
    name: str,
    requested_by: str,
    to: int | None = None,
    reason: str = "",
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> Operation:
    """Have revision `to` serve again. None: the stable one while a roll-out is under way, else the one before it.

    Raises:
        NotFound: no such deployment.
        Invalid: there is no such revision, or it serves already.
        Conflict: it is being deleted, there is no revision before, or another operation has it.
    """
    deployment = deployment_locked(name=name)
    number = _goal(deployment, to)
    revision = next((each for each in deployment.revisions.all() if each.number == number), None)
    if revision is None:
        known = ", ".join(str(each.number) for each in deployment.revisions.all())
        raise Invalid(f"{deployment} has no revision {number}; it has {known}.", field="to")
    stable = deployment.stable_revision
    operation = operation_start(
        kind=OperationKind.ROLL_BACK,
        targets=[deployment_target(deployment)],
        title=f"Roll {deployment} back to revision {number}",
        deployment=deployment.name,
        requested_by=requested_by,
        request=msgspec.to_builtins(Request(deployment_id=deployment.pk, to=number)),
        reason=reason,
        before=f"revision {stable.number}: {in_words(stable)}",
        after=f"revision {number}: {in_words(revision)}",
        preview=preview_of(deployment, candidate=number),
        on_conflict=on_conflict,
    )
    record(
        action="deployment.roll_back",
        target_kind=DEPLOYMENT,
        target_id=deployment.pk,
        target_name=name,
        before={"revision": stable.number},
        after={"revision": number, "operation": str(operation.pk)},
        reason=reason,
    )
    return operation


def _goal(deployment: Deployment, to: int | None) -> int:
    under_way = selectors.rollout_of(deployment)
    if to is None and under_way is not None:
        return deployment.stable
    if to is None and deployment.previous is None:
        raise Conflict(f"{deployment} has had no other revision.", code="no_previous")
    number = deployment.previous if to is None else to
    if number == deployment.stable and under_way is None:
        raise Invalid(f"Revision {number} of {deployment} serves already.", code="no_change", field="to")
    return number or deployment.stable


def _begin(operation: Operation) -> None:
    request = msgspec.convert(operation.request, Request)
    deployment = deployment_locked(pk=request.deployment_id)
    if request.to == deployment.stable:
        rollout_drop(deployment)
    else:
        revision = deployment.revisions.get(number=request.to)
        rollout_begin(deployment, revision, operation_id=operation.pk, judged=False)
    look_again(deployment)


def _cancel(operation: Operation) -> str:
    deployment = deployment_locked(pk=msgspec.convert(operation.request, Request).deployment_id)
    rollout_drop(deployment)
    look_again(deployment)
    return f"Revision {deployment.stable} of {deployment} goes on."


def progress(operation: Operation, look: Look) -> Progress:
    request = msgspec.convert(operation.request, Request)
    if isinstance(look.decision, TakeBack):
        outcome = f"Revision {look.deployment.stable} goes on: {look.decision.why}."
        return Progress(0.0, (), OperationState.FAILED, outcome)
    going = revision_progress(look.pools, look.workers, request.to, since=since(operation), gone=look.gone)
    if going.state == OperationState.SUCCEEDED and look.deployment.stable == request.to:
        return Progress(1.0, going.steps, OperationState.SUCCEEDED, f"Revision {request.to} serves.")
    return Progress(min(going.share, 0.99), going.steps)


WORKFLOW = Workflow(
    OperationKind.ROLL_BACK,
    begin=_begin,
    lock=deployment_lock,
    cancel=_cancel,
    retryable=True,
    supersedes=frozenset({OperationKind.ROLL_OUT, OperationKind.ROLL_BACK}),
)
