"""What can be served."""

from __future__ import annotations

from django.db import models


class Model(models.Model):
    """A causal LM in Hugging Face format. path: a local directory or a hub id, as the nodes see it."""

    name = models.CharField(max_length=100, unique=True)
    path = models.CharField(max_length=500)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
