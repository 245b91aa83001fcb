"""Writing the catalogue: what can be served, and where its weights are."""

from __future__ import annotations

import re

import structlog
from django.db import IntegrityError, transaction

from controlplane.catalog.models import Model
from controlplane.catalog.presenters import model_view
from controlplane.core import clock
from controlplane.core.broadcast import broadcast
from controlplane.core.errors import Conflict, Invalid
from inference.contracts.console import ModelChanged

log = structlog.get_logger()

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PATH_MAX = 500
_DESCRIPTION_MAX = 1000


@transaction.atomic
def model_create(*, name: str, path: str, description: str = "") -> Model:
    """Add a model.

    path is a local directory or a hub id as the *nodes* see it: whether it exists here says nothing, so it is not
    looked for. A node that can't load it says so when a worker starts.

    Raises:
        Invalid: name, path or description can't be right; `field` says which.
        Conflict: the name is taken.
    """
    name, path, description = _checked_name(name), _checked_path(path), _checked_description(description)
    try:
        with transaction.atomic():
            model = Model.objects.create(name=name, path=path, description=description, created_at=clock.now())
    except IntegrityError as error:
        raise Conflict(
            f"A model named {name!r} is in the catalogue already.", code="name_taken", field="name"
        ) from error
    _announce(model)
    return model


@transaction.atomic
def model_ensure(*, name: str, path: str, description: str = "") -> Model:
    """`model_create`, or, where the name is in the catalogue already, bring path and description up to date.

    Raises:
        Invalid: name, path or description can't be right.
    """
    model = Model.objects.select_for_update().filter(name=name).first()
    if model is None:
        return model_create(name=name, path=path, description=description)
    path, description = _checked_path(path), _checked_description(description) or model.description
    if (model.path, model.description) != (path, description):
        model.path, model.description = path, description
        model.save(update_fields=["path", "description"])
        _announce(model)
    return model


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"A model's name has 1 to 100 letters, digits, dots, dashes or underscores and begins with a letter or "
            f"digit; {name[:120]!r} does not.",
            field="name",
        )
    return name


def _checked_path(path: str) -> str:
    path = path.strip()
    if not path:
        raise Invalid("A model needs the path of its directory on the nodes, or a hub id.", field="path")
    if len(path) > _PATH_MAX or not path.isprintable():
        raise Invalid(f"A path has at most {_PATH_MAX} printable characters.", field="path")
    return path


def _checked_description(description: str) -> str:
    description = description.strip()
    if len(description) > _DESCRIPTION_MAX:
        raise Invalid(
            f"A description has at most {_DESCRIPTION_MAX} characters; this one has {len(description)}.",
            field="description",
        )
    return description


def _announce(model: Model) -> None:
    log.info("model in the catalogue", name=model.name, path=model.path)
    broadcast(ModelChanged(model=model_view(model)))
