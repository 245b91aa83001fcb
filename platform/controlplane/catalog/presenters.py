"""Models as the console sees them."""

from __future__ import annotations

from controlplane.catalog.models import Model
from controlplane.core.clock import iso
from inference.contracts.console import ModelView


def model_view(model: Model) -> ModelView:
    return ModelView(name=model.name, path=model.path, description=model.description, created_at=iso(model.created_at))
