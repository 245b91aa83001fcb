"""REST: what operators asked for and how it went; taking it back, and trying it again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core import principal
from controlplane.core.errors import Invalid
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import Parameter, documented
from controlplane.core.rest.view import ControlView
from controlplane.operations import selectors, services
from controlplane.operations.asking import on_conflict
from controlplane.operations.presenters import operation_view, operation_views
from controlplane.operations.workflows import Target
from inference.contracts.answers import Page
from inference.contracts.bodies.operations import ReasonBody
from inference.contracts.states import OperationKind, OperationState
from inference.contracts.views.operations import OperationView

_TEXT = ("title", "reason", "outcome")


class OperationListApi(ControlView):
    listing = Listing(
        orders={"requested_at": "requested_at"},
        order="-requested_at",
        filters={
            "state": Filter("state", OperationState),
            "kind": Filter("kind", OperationKind),
            "requested_by": Filter("requested_by"),
            "deployment": Filter("deployment", description="Name of the deployment that it is about."),
            "text": Filter(tuple(f"{column}__icontains" for column in _TEXT), description="In what it says."),
        },
    )

    @documented(
        "List operations",
        answers={200: Page[OperationView]},
        query={"target": Parameter(str, 'Kind and id of something that it works on: "pool:<id>".')},
    )
    def get(self, request: Request) -> Response:
        """The newest first, with their steps and targets."""
        rows = selectors.operations_visible(only=principal.current().only, on=_target(request))
        return self.page(rows, operation_views)


class OperationApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.deployment_of(kwargs["operation_id"])

    @documented("Show one operation", answers={200: OperationView}, refusals=[404])
    def get(self, request: Request, operation_id: UUID) -> Response:
        return answer(operation_view(selectors.operation_get(operation_id)))


class OperationCancelApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.deployment_of(kwargs["operation_id"])

    @documented("Cancel an operation", body=ReasonBody, answers={200: OperationView}, refusals=[404, 409])
    def post(self, request: Request, operation_id: UUID) -> Response:
        """What was wanted before is wanted again. 409 `operation_ended`: too late. 409 `not_cancellable`: what is of
        this kind can't be taken back once it runs."""
        operation = services.operation_cancel(
            operation_id, by=principal.current().name, reason=body(request, ReasonBody).reason
        )
        return answer(operation_view(operation))


class OperationRetryApi(ControlView):
    def deployment(self, request: Request, **kwargs: Any) -> str:
        return selectors.deployment_of(kwargs["operation_id"])

    @documented(
        "Retry an operation", body=ReasonBody, answers={202: OperationView}, refusals=[404, 409], queueable=True
    )
    def post(self, request: Request, operation_id: UUID) -> Response:
        """Answers the new operation, which names this one. 409 `not_retryable`: only what failed or was cancelled can
        be tried again, and not every kind. 409 `operation_conflict`: another operation has one of its targets."""
        operation = services.operation_retry(
            operation_id,
            by=principal.current().name,
            reason=body(request, ReasonBody).reason,
            on_conflict=on_conflict(request),
        )
        return answer(operation_view(operation), 202)


def _target(request: Request) -> Target | None:
    named = request.query_params.get("target")
    if named is None:
        return None
    kind, colon, target_id = named.partition(":")
    if not colon or "\0" in named:
        raise Invalid(
            f'target is a kind and an id, like "pool:<id>", not {named[:100]!r}.',
            code="invalid_parameter",
            field="target",
        )
    return Target(kind, target_id, "")
