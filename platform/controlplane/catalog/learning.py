"""Where the shape of a model comes from: its files if this machine sees them, nodes that have them, or a person.

What a person said stays until a person changes it; what is not known is filled in as soon as somebody knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog
from django.db import transaction

from controlplane.catalog.announce import model_announce
from controlplane.catalog.checks import shape_checked
from controlplane.catalog.models import Model
from controlplane.core import principal
from controlplane.core.errors import Invalid
from controlplane.core.locking import locked
from controlplane.fleet.models import NodeWeights
from inference.contracts.models import ModelShape
from inference.contracts.states import FetchState, ModelSource
from inference.planning.model.config import NotUnderstood
from inference.planning.model.faults import shape_fault
from inference.planning.model.folder import read_shape
from inference.planning.model.shape import model_shape

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Told:
    """What a person says of a model: its shape, or the content of its config.json; neither: find out."""

    shape: ModelShape | None = None
    config: dict[str, Any] | None = None


def shape_find(model: Model, told: Told) -> None:
    """Put into the row (not saved) what can be known of the model now.

    Raises:
        Invalid: what is told can't be right.
    """
    if told.shape is not None and told.config is not None:
        raise Invalid("Give the shape or the config, not both.", field="config")
    if told.shape is not None:
        _put(model, shape_checked(told.shape), principal.current().name)
    elif told.config is not None:
        _put(model, _from_config(told.config), principal.current().name)
    elif (seen := _from_files(model)) is not None:
        _put(model, seen, "its files here")
    else:
        _from_nodes([model])


@transaction.atomic
def models_learn() -> None:
    """For the sweep: fill in what nodes know of models that nobody knew before. One query while all are known."""
    unknown = list(locked(Model.objects).filter(shape__isnull=True))
    for model in _from_nodes(unknown):
        model.save(update_fields=["shape", "shape_from"])
        log.info("model known", name=model.name, told_by=model.shape_from)
        model_announce(model)


def _from_config(config: dict[str, Any]) -> ModelShape:
    try:
        return shape_checked(model_shape(config))
    except NotUnderstood as error:
        raise Invalid(f"{str(error).removesuffix('.')}.", field="config") from error
    except Invalid as error:
        raise Invalid(error.message, field="config") from error


def _from_files(model: Model) -> ModelShape | None:
    """Of a directory that this machine happens to see as well."""
    if model.source != ModelSource.DIRECTORY:
        return None
    try:
        folder = Path(model.path).expanduser()
    except RuntimeError:  # there is no such user here
        return None
    shape = read_shape(folder) if folder.is_absolute() else None
    return None if shape is None or shape_fault(shape) else shape


def _from_nodes(models: list[Model]) -> list[Model]:
    """Those of `models` that some node knows the files of; changed, not saved."""
    if not models:
        return []
    rows = NodeWeights.objects.filter(
        path__in={model.path for model in models}, state=FetchState.PRESENT, shape__isnull=False
    ).select_related("node")
    known = {(row.path, row.revision): row for row in rows}
    learnt = []
    for model in models:
        row = known.get((model.path, model.revision))
        if row is None:
            continue
        try:
            shape = msgspec.convert(row.shape, ModelShape)
        except msgspec.ValidationError:
            continue
        if fault := shape_fault(shape):
            log.warning("shape of a model not believed", name=model.name, node=row.node.name, fault=fault)
            continue
        _put(model, shape, f"node {row.node.name}")
        learnt.append(model)
    return learnt


def _put(model: Model, shape: ModelShape, told_by: str) -> None:
    model.shape, model.shape_from = msgspec.to_builtins(shape), told_by[:200]
