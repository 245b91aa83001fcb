"""REST: pools and their workers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from controlplane.operations.asking import on_conflict
from controlplane.operations.presenters import operation_view
from controlplane.pools import selectors, services
from controlplane.pools.apis.bodies import given
from controlplane.pools.presenters import deployment_view
from inference.contracts.answers import OperationAnswer, PoolAnswer
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.bodies.pools import PoolBody
from inference.contracts.views.pools import PoolView


class PoolApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.pool_get(kwargs["pool_id"]).deployment.name

    def version(self, view: PoolView) -> object:
        return view.generation

    @documented("Show one pool", answers={200: PoolView}, refusals=[404])
    def get(self, request: Request, pool_id: UUID) -> Response:
        return answer(_pool_view(pool_id))

    @documented(
        "Resize a pool",
        body=PoolBody,
        answers={202: PoolAnswer, 200: PoolAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def patch(self, request: Request, pool_id: UUID) -> Response:
        """Also its limits, and where its workers may be placed. 202: the operation tells how it goes. 200: the pool has
        that size already. 409 `stale_generation`: somebody changed it since you looked; `current` is what it is now."""
        wanted = body(request, PoolBody)
        changed = services.pool_change(
            pool_id=pool_id,
            generation=wanted.generation,
            min_replicas=given(wanted.min_replicas),
            max_replicas=given(wanted.max_replicas),
            labels=given(wanted.labels),
            strategy=given(wanted.strategy),
            reason=wanted.reason,
        )
        if isinstance(wanted.replicas, msgspec.UnsetType):
            return answer(PoolAnswer(pool=_pool_view(pool_id), operation=None))
        resized = services.pool_resize(
            pool_id=pool_id,
            generation=wanted.generation if changed is None else changed.generation,
            replicas=wanted.replicas,
            requested_by=principal.current().name,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        operation = operation_view(resized.operation) if resized.operation else None
        return answer(PoolAnswer(pool=_pool_view(pool_id), operation=operation), 202 if operation else 200)


class OfWorker(ControlView):
    """What is about one worker: roles granted for its deployment count."""

    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.worker_get(kwargs["worker_id"]).pool.deployment.name


class WorkerFlipApi(OfWorker):
    @documented("Flip a worker", body=ReasonBody, answers={202: OperationAnswer}, refusals=[404, 409], queueable=True)
    def post(self, request: Request, worker_id: UUID) -> Response:
        """To the other role of its deployment: with its weights loaded where its engine can, else by a warm restart;
        the operation's title says which. Both pools' sizes follow."""
        wanted = body(request, ReasonBody)
        operation = services.worker_flip(
            worker_id=worker_id,
            requested_by=principal.current().name,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


class WorkerRestartApi(OfWorker):
    @documented(
        "Restart a worker", body=ReasonBody, answers={202: OperationAnswer}, refusals=[404, 409], queueable=True
    )
    def post(self, request: Request, worker_id: UUID) -> Response:
        """Clears a failure or a back-off at once; a worker that runs first finishes what it has."""
        wanted = body(request, ReasonBody)
        operation = services.worker_restart(
            worker_id=worker_id,
            requested_by=principal.current().name,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


def _pool_view(pool_id: UUID) -> PoolView:
    deployment = deployment_view(selectors.deployment_get(selectors.pool_get(pool_id).deployment.name))
    return next(pool for pool in deployment.pools if pool.id == str(pool_id))
