"""Writing the catalogue: what can be served, and where its weights come from."""

from __future__ import annotations

import structlog
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from controlplane.audit.services import record
from controlplane.catalog.announce import model_announce
from controlplane.catalog.checks import (
    description_checked,
    licence_checked,
    name_checked,
    path_checked,
    revision_checked,
)
from controlplane.catalog.learning import Told, shape_find
from controlplane.catalog.models import Model
from controlplane.catalog.selectors import deployments_of
from controlplane.catalog.sources import shown_path, source_of
from controlplane.core import clock
from controlplane.core.broadcast import broadcast
from controlplane.core.errors import Conflict, NotFound
from controlplane.core.locking import locked
from controlplane.fleet.services import weights_let_go
from controlplane.operations.selectors import targets_under_operation
from inference.contracts.console import ModelRemoved

log = structlog.get_logger()

#: Kind of a model as the target of operations and in the audit.
MODEL = "model"

_NOTHING_TOLD = Told()


@transaction.atomic
def model_create(
    *,
    name: str,
    path: str,
    description: str = "",
    revision: str = "",
    licence: str = "",
    told: Told = _NOTHING_TOLD,
) -> Model:
    """Add a model.

    path is a local directory, a hub id or an address as the *nodes* see it: whether it exists here says nothing. A node
    that can't load it says so when a worker starts.

    Raises:
        Invalid: a value can't be right; `field` says which.
        Conflict: the name is taken.
    """
    path = path_checked(path)
    model = Model(
        name=name_checked(name),
        path=path,
        source=source_of(path),
        revision=revision_checked(revision),
        licence=licence_checked(licence),
        description=description_checked(description),
        created_at=clock.now(),
    )
    shape_find(model, told)
    try:
        with transaction.atomic():
            model.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(
            f"A model named {name!r} is in the catalogue already.", code="name_taken", field="name"
        ) from error
    _audit("create", model, after=_told(model))
    log.info("model in the catalogue", name=model.name, path=shown_path(model.path))
    model_announce(model)
    return model


@transaction.atomic
def model_change(
    name: str,
    *,
    path: str | None = None,
    revision: str | None = None,
    licence: str | None = None,
    description: str | None = None,
    told: Told = _NOTHING_TOLD,
    forget_shape: bool = False,
) -> Model:
    """Change what is given; None leaves a value as it is. What is not known of the model is looked for again.

    forget_shape: what is known of it counts no more.

    Raises:
        NotFound: the catalogue has no model of this name.
        Invalid: a value can't be right.
        Conflict: code "model_used": another path or revision is another model, and deployments run this one.
    """
    model = _locked(name)
    before, was = _told(model), (model.path, model.revision)
    if path is not None:
        model.path = path_checked(path)
        model.source = source_of(model.path)
    if revision is not None:
        model.revision = revision_checked(revision)
    if licence is not None:
        model.licence = licence_checked(licence)
    if description is not None:
        model.description = description_checked(description)
    moved = was != (model.path, model.revision)
    if moved:
        _require_unused(model, "Its path and revision can't change: add a new model, and roll that out.")
        weights_let_go(*was)
    if moved or forget_shape:
        model.shape, model.shape_from = None, ""
    if model.shape is None or told != _NOTHING_TOLD:
        shape_find(model, told)
    after = _told(model)
    if before != after or moved:
        model.save()
        _audit("change", model, before=before, after=after)
        model_announce(model)
    return model


@transaction.atomic
def model_delete(name: str) -> None:
    """Take a model out of the catalogue. Its files stay where they are.

    Raises:
        NotFound: the catalogue has no model of this name.
        Conflict: deployments use it (code "model_used"), or an operation works on it.
    """
    model = _locked(name)
    _require_unused(model, "Delete those first, or roll another model out and let them forget this one.")
    pk, before = model.pk, _told(model)
    try:
        model.delete()
    except ProtectedError as error:  # a deployment that was made at this moment
        raise Conflict(f"A deployment uses {name} since just now.", code="model_used") from error
    if not Model.objects.filter(path=model.path, revision=model.revision).exists():
        weights_let_go(model.path, model.revision)
    record(action="model.delete", target_kind=MODEL, target_id=pk, target_name=name, before=before)
    log.info("model deleted", name=name)
    broadcast(ModelRemoved(name=name))


@transaction.atomic
def model_ensure(*, name: str, path: str, description: str = "") -> Model:
    """`model_create`, or, where the name is in the catalogue already, bring path and description up to date, also while
    it is in use: for whoever moves the files of one machine.

    Raises:
        Invalid: name, path or description can't be right.
    """
    model = locked(Model.objects).filter(name=name).first()
    if model is None:
        return model_create(name=name, path=path, description=description)
    before, was = _told(model), model.path
    model.path, model.description = path_checked(path), description_checked(description) or model.description
    model.source = source_of(model.path)
    if model.shape is None or was != model.path:
        shape_find(model, _NOTHING_TOLD)
    after = _told(model)
    if before != after or was != model.path:
        model.save()
        _audit("change", model, before=before, after=after)
        model_announce(model)
    return model


def _locked(name: str) -> Model:
    model = locked(Model.objects).filter(name=name).first()
    if model is None:
        raise NotFound("model", name)
    return model


def _require_unused(model: Model, instead: str) -> None:
    """
    Raises:
        Conflict: deployments or operations need the model as it is.
    """
    if users := deployments_of(model):
        shown = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
        whose = "the deployment" if len(users) == 1 else "the deployments"
        raise Conflict(
            f"{model.name} is used by {whose} {shown}. {instead}", code="model_used", current={"deployments": users}
        )
    if targets_under_operation(MODEL, [str(model.pk)]):
        raise Conflict(
            f"An operation works on {model.name}. Wait until it has ended, or cancel it.", code="operation_conflict"
        )


def _told(model: Model) -> dict[str, object]:
    """What people say of it, fit to be kept in the audit."""
    return {
        "path": shown_path(model.path),
        "revision": model.revision,
        "licence": model.licence,
        "description": model.description,
        "shape": model.shape,
        "shape_from": model.shape_from,
    }


def _audit(verb: str, model: Model, *, before: object = None, after: object = None) -> None:
    record(
        action=f"model.{verb}",
        target_kind=MODEL,
        target_id=model.pk,
        target_name=model.name,
        before=before,
        after=after,
    )
