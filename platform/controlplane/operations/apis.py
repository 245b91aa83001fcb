"""REST: what operators asked for and how it went."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.api import answer
from controlplane.core.schema import documented
from controlplane.operations import selectors
from controlplane.operations.presenters import operation_view, operation_views
from inference.contracts.console import OperationView


class OperationListApi(APIView):
    @documented("List the newest operations", answers={200: list[OperationView]})
    def get(self, request: Request) -> Response:
        """The newest 50 of deploy, resize and delete, newest first, with their steps."""
        return answer(operation_views(selectors.operation_list()))


class OperationApi(APIView):
    @documented("Show one operation", answers={200: OperationView}, refusals=[404])
    def get(self, request: Request, operation_id: UUID) -> Response:
        return answer(operation_view(selectors.operation_get(operation_id)))
