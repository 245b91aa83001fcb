"""Keys of the serving API. The key itself is shown once and never stored."""

from __future__ import annotations

import uuid

from django.db import models


class ServingKey(models.Model):
    """prefix: the first characters, for recognising it. digest: SHA-256 in hex. internal: the playground's own key,
    kept out of lists."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=20)
    digest = models.CharField(max_length=64, unique=True)
    internal = models.BooleanField(default=False)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at"]


class KeyTableVersion(models.Model):
    """One row: the version of the key table last built, so that it only grows."""

    version = models.PositiveBigIntegerField(default=0)
