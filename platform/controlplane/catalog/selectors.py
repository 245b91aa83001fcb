"""Reading the catalogue."""

from __future__ import annotations

from django.db.models import QuerySet

from controlplane.catalog.models import Model
from controlplane.core.errors import NotFound
from controlplane.fleet.models import NodeWeights


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


def deployments_of(model: Model) -> list[str]:
    """Names of the deployments that serve it or may go back to it, sorted.

    Follows the rows that the pools app hangs on a model, by name: this app knows nothing of deployments.
    """
    names = Model.objects.filter(pk=model.pk, revisions__isnull=False).values_list("revisions__deployment__name")
    return sorted({name for (name,) in names})


def weights_of(model: Model) -> QuerySet[NodeWeights]:
    """Where its weights are, or shall be, of all revisions."""
    return NodeWeights.objects.filter(path=model.path).select_related("node")
