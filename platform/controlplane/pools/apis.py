"""REST: deployments, pools, workers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.api import answer, body
from controlplane.core.errors import Invalid
from controlplane.core.listing import Filter, Listing, Page
from controlplane.core.schema import documented
from controlplane.core.view import ControlView
from controlplane.operations.presenters import operation_view
from controlplane.pools import selectors, services
from controlplane.pools.presenters import deployment_view
from inference.contracts.console import DeploymentView, OperationView, PoolView, WorkerView
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role


class DeploymentBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """prefill, decode: workers of each stage; or unified: workers that do both, alone.

    local_prefill_tokens: prompts with at most this many uncached tokens are read by the decode worker itself.
    """

    name: str
    model: str
    prefill: int = 0
    decode: int = 0
    unified: int = 0
    local_prefill_tokens: int | None = None
    settings: EngineSettings = EngineSettings()


class DeploymentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    deployment: DeploymentView
    operation: OperationView


class DeleteBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: str = ""


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    operation: OperationView


class ResizeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """generation: of the pool as you saw it."""

    generation: int
    replicas: int
    reason: str = ""


class ResizeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """operation: None when the pool had that size already and nothing is under way."""

    pool: PoolView
    operation: OperationView | None


class DeploymentListApi(ControlView):
    listing = Listing(
        orders={"name": "name", "created_at": "created_at"}, order="name", filters={"name": Filter("name")}
    )

    @documented("List deployments", answers={200: Page[DeploymentView]})
    def get(self, request: Request) -> Response:
        """Every deployment with its pools and workers."""
        rows = selectors.deployment_list()
        if (only := principal.current().only) is not None:
            rows = rows.filter(name__in=only)
        return self.page(rows, lambda found: [deployment_view(deployment) for deployment in found])

    @documented("Deploy a model", body=DeploymentBody, answers={201: DeploymentAnswer}, refusals=[409])
    def post(self, request: Request) -> Response:
        """Needs as many free devices as workers. The operation tells how it goes."""
        wanted = body(request, DeploymentBody)
        _refuse_unknown_settings(request)
        deployment, operation = services.deployment_create(
            name=wanted.name,
            model=wanted.model,
            counts={Role.PREFILL: wanted.prefill, Role.DECODE: wanted.decode, Role.UNIFIED: wanted.unified},
            requested_by=principal.current().name,
            local_prefill_tokens=wanted.local_prefill_tokens,
            settings=wanted.settings,
        )
        view = deployment_view(selectors.deployment_get(deployment.name))
        return answer(DeploymentAnswer(deployment=view, operation=operation_view(operation)), 201)


class DeploymentApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return str(kwargs["name"])

    def version(self, view: DeploymentView) -> object:
        """What people change of a deployment; what its workers do changes by itself."""
        pools = [(pool.id, pool.generation) for pool in view.pools]
        return [view.model, view.revision, view.settings, view.local_prefill_tokens, view.deleting, pools]

    @documented("Show one deployment", answers={200: DeploymentView}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        return answer(deployment_view(selectors.deployment_get(name)))

    @documented("Delete a deployment", body=DeleteBody, answers={202: OperationAnswer}, refusals=[404])
    def delete(self, request: Request, name: str) -> Response:
        """Its workers finish what they have; the deployment is gone when the last of them is."""
        wanted = body(request, DeleteBody)
        operation = services.deployment_delete(name=name, requested_by=principal.current().name, reason=wanted.reason)
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


class PoolApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.pool_get(kwargs["pool_id"]).deployment.name

    @documented(
        "Resize a pool",
        body=ResizeBody,
        answers={202: ResizeAnswer, 200: ResizeAnswer},
        refusals=[404, 409],
    )
    def patch(self, request: Request, pool_id: UUID) -> Response:
        """202: the operation tells how it goes. 200: the pool has that size already. 409 `stale_generation`: somebody
        changed it since you looked; `current` is what it is now."""
        wanted = body(request, ResizeBody)
        resized = services.pool_resize(
            pool_id=pool_id,
            generation=wanted.generation,
            replicas=wanted.replicas,
            requested_by=principal.current().name,
            reason=wanted.reason,
        )
        deployment = deployment_view(selectors.deployment_get(resized.pool.deployment.name))
        view = ResizeAnswer(
            pool=next(pool for pool in deployment.pools if pool.id == str(pool_id)),
            operation=operation_view(resized.operation) if resized.operation else None,
        )
        return answer(view, 202 if resized.operation else 200)


class WorkerRestartApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.worker_get(kwargs["worker_id"]).pool.deployment.name

    @documented("Restart a failed worker", answers={202: WorkerView}, refusals=[404, 409])
    def post(self, request: Request, worker_id: UUID) -> Response:
        """Clears a failure or a back-off; the worker is started at once."""
        worker = services.worker_restart(worker_id=worker_id, requested_by=principal.current().name)
        deployment = deployment_view(selectors.deployment_get(worker.pool.deployment.name))
        workers = (each for pool in deployment.pools for each in pool.workers)
        return answer(next(each for each in workers if each.id == str(worker_id)), 202)


def _refuse_unknown_settings(request: Request) -> None:
    """A misspelt setting must not be dropped; between processes, unknown fields are ignored on purpose."""
    given = body(request, dict[str, Any]).get("settings", {})
    unknown = [name for name in given if name not in EngineSettings.__struct_fields__]
    if unknown:
        raise Invalid(
            f"There is no setting {unknown[0]!r}; known are {', '.join(EngineSettings.__struct_fields__)}.",
            code="invalid_setting",
            field=f"settings.{unknown[0]}",
        )
