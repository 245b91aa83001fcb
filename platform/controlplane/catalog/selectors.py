"""Reading the catalogue."""

from __future__ import annotations

from django.db.models import QuerySet

from controlplane.catalog.models import Model
from controlplane.core.errors import NotFound


def model_list() -> QuerySet[Model]:
    return Model.objects.all()


def model_get(name: str) -> Model:
    """
    Raises:
        NotFound: the catalogue has no model of this name.
    """
    model = Model.objects.filter(name=name).first()
    if model is None:
        raise NotFound("model", name)
    return model
