"""REST: the catalogue."""

from __future__ import annotations

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.catalog import selectors, services
from controlplane.catalog.presenters import model_view
from controlplane.core.api import answer, body
from controlplane.core.listing import Filter, Listing, Page
from controlplane.core.schema import documented
from controlplane.core.view import ControlView
from inference.contracts.console import ModelView


class ModelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """name: up to 100 letters, digits, dots, dashes, underscores.

    path: a directory as the nodes see it, or a hub id. It need not exist on the control host and is not looked for
    there: a node that can't load it says so when a worker starts.
    """

    name: str
    path: str
    description: str = ""


class ModelListApi(ControlView):
    listing = Listing(
        orders={"name": "name", "created_at": "created_at"}, order="name", filters={"name": Filter("name")}
    )

    @documented("List models", answers={200: Page[ModelView]})
    def get(self, request: Request) -> Response:
        return self.page(selectors.model_list(), lambda rows: [model_view(model) for model in rows])

    @documented("Add a model", body=ModelBody, answers={201: ModelView}, refusals=[409])
    def post(self, request: Request) -> Response:
        wanted = body(request, ModelBody)
        model = services.model_create(name=wanted.name, path=wanted.path, description=wanted.description)
        return answer(model_view(model), 201)
