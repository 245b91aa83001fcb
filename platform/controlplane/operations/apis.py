"""REST: what operators asked for and how it went."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.core.api import answer
from controlplane.core.listing import Filter, Listing, Page
from controlplane.core.schema import documented
from controlplane.core.view import ControlView
from controlplane.operations import selectors
from controlplane.operations.presenters import operation_view, operation_views
from inference.contracts.console import OperationView
from inference.contracts.states import OperationKind, OperationState


class OperationListApi(ControlView):
    listing = Listing(
        orders={"requested_at": "requested_at"},
        order="-requested_at",
        filters={
            "state": Filter("state", OperationState),
            "kind": Filter("kind", OperationKind),
            "requested_by": Filter("requested_by"),
        },
    )

    @documented("List operations", answers={200: Page[OperationView]})
    def get(self, request: Request) -> Response:
        """The newest first, with their steps."""
        return self.page(selectors.operation_all(), operation_views)


class OperationApi(ControlView):
    @documented("Show one operation", answers={200: OperationView}, refusals=[404])
    def get(self, request: Request, operation_id: UUID) -> Response:
        return answer(operation_view(selectors.operation_get(operation_id)))
