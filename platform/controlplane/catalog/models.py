"""What can be served."""

from __future__ import annotations

import msgspec
from django.db import models

from inference.contracts.models import ModelShape
from inference.contracts.states import ModelSource


class Model(models.Model):
    """A causal LM in Hugging Face format.

    path: a directory as the nodes see it, a hub id, or an address; source says which. revision: of a hub id, where a
    deployment names none; empty takes the hub's default. licence: as people call it ("Apache-2.0").
    shape: `ModelShape` as JSON, read and written through that struct only; null is not known. shape_from: who told it.
    """

    name = models.CharField(max_length=100, unique=True)
    path = models.CharField(max_length=500)
    source = models.CharField(
        max_length=16, choices=[(source, source) for source in ModelSource], default=ModelSource.DIRECTORY
    )
    revision = models.CharField(max_length=100, blank=True)
    licence = models.CharField(max_length=100, blank=True)
    description = models.TextField(blank=True)
    shape = models.JSONField(null=True)
    shape_from = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def known_shape(self) -> ModelShape | None:
        """What it is made of; None when that is not known."""
        return None if self.shape is None else msgspec.convert(self.shape, ModelShape)
