"""REST: the catalogue, where its weights are, and what it fits on."""

from __future__ import annotations

from typing import Any

import msgspec
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.catalog import selectors, services
from controlplane.catalog.fetching import weights_fetch
from controlplane.catalog.fitting import model_fit
from controlplane.catalog.learning import Told
from controlplane.catalog.presenters import model_view, weights_view
from controlplane.core import principal
from controlplane.core.errors import Invalid
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.listing import Filter, Listing
from controlplane.core.rest.schema import Parameter, documented
from controlplane.core.rest.view import ControlView
from controlplane.operations.asking import on_conflict
from controlplane.operations.presenters import operation_view
from inference.contracts.answers import FetchAnswer, Page
from inference.contracts.bodies.models import FetchBody, ModelBody, ModelChangeBody
from inference.contracts.models import KvLayers, ModelShape
from inference.contracts.specs import EngineSettings
from inference.contracts.states import FetchState, ModelSource
from inference.contracts.views.models import ModelFitView, ModelView, WeightsView
from inference.planning.model.fit import Load


class ModelListApi(ControlView):
    listing = Listing(
        orders={"name": "name", "created_at": "created_at"},
        order="name",
        filters={
            "name": Filter("name"),
            "name_contains": Filter("name__icontains"),
            "source": Filter("source", ModelSource),
            "architecture": Filter("shape__architecture", description="`model_type` of its config.json."),
        },
    )

    @documented("List models", answers={200: Page[ModelView]})
    def get(self, request: Request) -> Response:
        return self.page(selectors.model_list(), lambda rows: [model_view(model) for model in rows])

    @documented("Add a model", body=ModelBody, answers={201: ModelView}, refusals=[409])
    def post(self, request: Request) -> Response:
        wanted = body(request, ModelBody)
        _refuse_unknown_parts(request)
        model = services.model_create(
            name=wanted.name,
            path=wanted.path,
            description=wanted.description,
            revision=wanted.revision,
            licence=wanted.licence,
            told=Told(shape=wanted.shape, config=wanted.config),
        )
        return answer(model_view(model), 201)


class ModelApi(ControlView):
    @documented("Show one model", answers={200: ModelView}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        return answer(model_view(selectors.model_get(name)))

    @documented("Change a model", body=ModelChangeBody, answers={200: ModelView}, refusals=[404, 409])
    def patch(self, request: Request, name: str) -> Response:
        """Path and revision can't change while deployments use the model. What is not known of it is looked for."""
        wanted = body(request, ModelChangeBody)
        _refuse_unknown_parts(request)
        shape = None if wanted.shape is msgspec.UNSET else wanted.shape
        model = services.model_change(
            name,
            path=wanted.path,
            revision=wanted.revision,
            licence=wanted.licence,
            description=wanted.description,
            told=Told(shape=shape, config=wanted.config),
            forget_shape=wanted.shape is None,
        )
        return answer(model_view(model))

    @documented("Delete a model", answers={204: None}, refusals=[404, 409])
    def delete(self, request: Request, name: str) -> Response:
        """Refused with their names while deployments use it. Files on nodes stay where they are."""
        services.model_delete(name)
        return Response(status=204)


class ModelFitApi(ControlView):
    @documented(
        "Check where a model fits",
        answers={200: ModelFitView},
        refusals=[404],
        query={
            "kv_tokens": Parameter(int, "Size of the KV arena in tokens, as in the settings of a deployment."),
            "tensor_parallel": Parameter(int, "Devices of each worker."),
            "dtype": Parameter(str, "As in the settings of a deployment."),
        },
    )
    def get(self, request: Request, name: str) -> Response:
        """On each type of device that the fleet has: weights, KV and an allowance against its memory."""
        usual = EngineSettings()
        load = Load(
            kv_tokens=_whole(request, "kv_tokens", usual.kv_tokens),
            tensor_parallel=_whole(request, "tensor_parallel", 1),
            dtype=request.query_params.get("dtype", usual.dtype),
        )
        return answer(model_fit(selectors.model_get(name), load))


class ModelWeightsApi(ControlView):
    listing = Listing(
        orders={"node": "node__name"},
        order="node",
        filters={
            "node": Filter("node__name"),
            "state": Filter("state", FetchState),
            "revision": Filter("revision"),
        },
    )

    @documented("List weights of a model", answers={200: Page[WeightsView]}, refusals=[404])
    def get(self, request: Request, name: str) -> Response:
        """Where they are, are being fetched, or could not be fetched. A node that never had to do with them is left
        out; so is one where people put the files and nobody asked for them."""
        model = selectors.model_get(name)
        return self.page(selectors.weights_of(model), lambda rows: [weights_view(row, model) for row in rows])


class ModelFetchApi(ControlView):
    @documented("Fetch a model", body=FetchBody, answers={202: FetchAnswer}, refusals=[404, 409], queueable=True)
    def post(self, request: Request, name: str) -> Response:
        """Onto the disks of nodes, before workers need it. The operation tells how it goes, node by node; tried again,
        it goes on where it ended."""
        wanted = body(request, FetchBody)
        operation = weights_fetch(
            name,
            wanted.nodes,
            by=principal.current().name,
            revision=wanted.revision,
            reason=wanted.reason,
            on_conflict=on_conflict(request),
        )
        return answer(FetchAnswer(operation=operation_view(operation)), 202)


def _whole(request: Request, name: str, usual: int) -> int:
    asked = request.query_params.get(name)
    if asked is None:
        return usual
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 12):
        raise Invalid(f"{name} is a whole number, not {asked[:100]!r}.", code="invalid_parameter", field=name)
    return int(asked)


def _refuse_unknown_parts(request: Request) -> None:
    """A misspelt part of a shape must not be dropped; between processes, unknown fields are ignored on purpose.

    Raises:
        Invalid: there is no such part.
    """
    shape = body(request, dict[str, Any]).get("shape") or {}
    for place, given, kind in (
        ("shape", shape, ModelShape),
        *((f"shape.kv[{index}]", layers, KvLayers) for index, layers in enumerate(shape.get("kv") or ())),
    ):
        for name in given:
            if name not in kind.__struct_fields__:
                raise Invalid(
                    f"There is no {str(name)[:100]!r} in {place}; known are {', '.join(kind.__struct_fields__)}.",
                    code="invalid_body",
                    field=f"{place}.{str(name)[:100]}",
                )
