"""Telling consoles what is in the catalogue now."""

from __future__ import annotations

from controlplane.catalog.models import Model
from controlplane.catalog.presenters import model_view
from controlplane.core.broadcast import broadcast
from inference.contracts.console import ModelChanged


def model_announce(model: Model) -> None:
    broadcast(ModelChanged(model=model_view(model)))
