"""REST: deployments, and what is served under each name."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from controlplane.operations.asking import on_conflict
from controlplane.operations.presenters import operation_view
from controlplane.pools import selectors, services
from controlplane.pools.apis.bodies import refuse_unknown_settings
from controlplane.pools.presenters import deployment_view, revision_view
from inference.contracts.answers import DeploymentAnswer, OperationAnswer, Page, RolloutAnswer
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.bodies.pools import (
    DeploymentBody,
    DeploymentChangeBody,
    RebalanceBody,
    RollBackBody,
    RollOutBody,
)
from inference.contracts.states import Role
from inference.contracts.views.pools import DeploymentView, RevisionView


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
        """Needs enough free devices. The operation tells how it goes."""
        wanted = body(request, DeploymentBody)
        refuse_unknown_settings(request)
        own = {Role.PREFILL: wanted.prefill_labels, Role.DECODE: wanted.decode_labels, Role.UNIFIED: None}
        deployment, operation = services.deployment_create(
            name=wanted.name,
            model=wanted.model,
            model_revision=wanted.model_revision,
            engine=wanted.engine,
            shape=services.Shape(
                counts={Role.PREFILL: wanted.prefill, Role.DECODE: wanted.decode, Role.UNIFIED: wanted.unified},
                labels={role: wanted.labels if labels is None else labels for role, labels in own.items()},
                tensor_parallel=wanted.tensor_parallel,
                strategy=wanted.strategy,
            ),
            requested_by=principal.current().name,
            local_prefill_tokens=wanted.local_prefill_tokens,
            settings=wanted.settings,
            slo_ttft_s=wanted.slo_ttft_s,
            slo_tpot_s=wanted.slo_tpot_s,
            policy=wanted.policy,
            routing=wanted.routing,
            reason=wanted.reason,
        )
        view = deployment_view(selectors.deployment_get(deployment.name))
        return answer(DeploymentAnswer(deployment=view, operation=operation_view(operation)), 201)


class OfDeployment(ControlView):
    """What is about one deployment: roles granted for it count."""

    def deployment(self, request: Request, **kwargs: Any) -> str:
        return str(kwargs["name"])


class DeploymentApi(OfDeployment):
    def version(self, view: DeploymentView) -> object:
        """What people change of a deployment; what its workers do changes by itself."""
        pools = [(pool.id, pool.generation) for pool in view.pools]
        promised = [view.local_prefill_tokens, view.routing, view.slo_ttft_s, view.slo_tpot_s]
        policy = selectors.rollout_policy_of(view.name)
        return [view.model, view.revision, view.settings, promised, policy, view.deleting, pools]

    @documented("Show one deployment", answers={200: DeploymentView}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        return answer(deployment_view(selectors.deployment_get(name)))

    @documented("Change a deployment", body=DeploymentChangeBody, answers={200: DeploymentView}, refusals=[404, 409])
    def patch(self, request: Request, name: str) -> Response:
        """Takes effect at once, on the workers that run."""
        wanted = body(request, DeploymentChangeBody)
        services.deployment_change(
            name=name,
            local_prefill_tokens=wanted.local_prefill_tokens,
            slo_ttft_s=wanted.slo_ttft_s,
            slo_tpot_s=wanted.slo_tpot_s,
            policy=wanted.policy,
            routing=wanted.routing,
            reason=wanted.reason,
        )
        return answer(deployment_view(selectors.deployment_get(name)))

    @documented("Delete a deployment", body=ReasonBody, answers={202: OperationAnswer}, refusals=[404])
    def delete(self, request: Request, name: str) -> Response:
        """Its workers finish what they have; the deployment is gone when the last of them is."""
        wanted = body(request, ReasonBody)
        operation = services.deployment_delete(name=name, requested_by=principal.current().name, reason=wanted.reason)
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


class RebalanceApi(OfDeployment):
    @documented(
        "Rebalance a deployment",
        body=RebalanceBody,
        answers={202: OperationAnswer},
        refusals=[404, 409],
        queueable=True,
    )
    def post(self, request: Request, name: str) -> Response:
        """Trades prefill workers for decode workers, or the other way round, without one device more at any moment."""
        wanted = body(request, RebalanceBody)
        operation = services.deployment_rebalance(
            name=name,
            prefill=wanted.prefill,
            decode=wanted.decode,
            generations={Role.PREFILL: wanted.prefill_generation, Role.DECODE: wanted.decode_generation},
            requested_by=principal.current().name,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


class RevisionListApi(OfDeployment):
    listing = Listing(orders={"number": "number"}, order="-number", filters={})

    @documented("List revisions of a deployment", answers={200: Page[RevisionView]}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        """The newest first."""
        deployment = selectors.deployment_get(name)
        rows = deployment.revisions.select_related("model")
        return self.page(rows, lambda found: [revision_view(revision) for revision in found])


class RolloutApi(OfDeployment):
    @documented("Show the roll-out of a deployment", answers={200: RolloutAnswer}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        """How revisions of it are rolled out, and how far one is."""
        deployment = selectors.deployment_get(name)
        return answer(RolloutAnswer(policy=deployment.policy, rollout=deployment_view(deployment).rollout))

    @documented(
        "Roll out a revision", body=RollOutBody, answers={202: OperationAnswer}, refusals=[404, 409], queueable=True
    )
    def post(self, request: Request, name: str) -> Response:
        """Another model, model revision or settings, step by step. Taken back by itself when too many requests fail or
        miss what is promised; cancel the operation to take it back yourself."""
        wanted = body(request, RollOutBody)
        refuse_unknown_settings(request)
        operation = services.deployment_roll_out(
            name=name,
            requested_by=principal.current().name,
            model=wanted.model,
            model_revision=wanted.model_revision,
            settings=wanted.settings,
            policy=wanted.policy,
            note=wanted.note,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(OperationAnswer(operation=operation_view(operation)), 202)


class RolloutPauseApi(OfDeployment):
    @documented("Pause the roll-out of a deployment", answers={200: DeploymentView}, refusals=[404, 409])
    def post(self, request: Request, name: str) -> Response:
        """It keeps its present share; it is still taken back when it does badly."""
        services.rollout_pause(name=name, requested_by=principal.current().name)
        return answer(deployment_view(selectors.deployment_get(name)))


class RolloutResumeApi(OfDeployment):
    @documented("Resume the roll-out of a deployment", answers={200: DeploymentView}, refusals=[404, 409])
    def post(self, request: Request, name: str) -> Response:
        services.rollout_resume(name=name, requested_by=principal.current().name)
        return answer(deployment_view(selectors.deployment_get(name)))


class RollBackApi(OfDeployment):
    @documented(
        "Roll back a deployment", body=RollBackBody, answers={202: OperationAnswer}, refusals=[404, 409], queueable=True
    )
    def post(self, request: Request, name: str) -> Response:
        """An earlier revision serves again, everywhere at once. A roll-out under way gives way to it."""
        wanted = body(request, RollBackBody)
        operation = services.deployment_roll_back(
            name=name,
            requested_by=principal.current().name,
            to=wanted.to,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(OperationAnswer(operation=operation_view(operation)), 202)
