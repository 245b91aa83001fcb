"""Models and their weights as the console sees them."""

from __future__ import annotations

from controlplane.catalog.models import Model
from controlplane.catalog.sources import shown_path
from controlplane.core.clock import iso
from controlplane.fleet.models import NodeWeights
from inference.contracts.states import FetchState, ModelSource
from inference.contracts.views.models import ModelView, WeightsView
from inference.planning.model.kv import kv_bytes_of_request, kv_bytes_per_token


def model_view(model: Model) -> ModelView:
    shape = model.known_shape
    kv = None if shape is None else shape.kv
    context = None if shape is None else shape.context_length
    return ModelView(
        name=model.name,
        path=shown_path(model.path),
        description=model.description,
        created_at=iso(model.created_at),
        source=ModelSource(model.source),
        revision=model.revision,
        licence=model.licence,
        shape=shape,
        shape_from=model.shape_from,
        kv_bytes_per_token=None if kv is None else kv_bytes_per_token(kv),
        kv_bytes_of_context=None if kv is None or context is None else kv_bytes_of_request(kv, context),
    )


def weights_view(row: NodeWeights, model: Model) -> WeightsView:
    """The row with its node selected."""
    return WeightsView(
        node_id=str(row.node_id),
        node_name=row.node.name,
        model=model.name,
        state=FetchState(row.state),
        size_bytes=row.size_bytes,
        fetched_bytes=row.fetched_bytes,
        reason=row.reason,
        revision=row.revision,
        wanted=row.wanted,
    )
