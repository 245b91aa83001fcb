"""Who changed what, from where, and how it was before and after."""

from __future__ import annotations

from django.db import models

from controlplane.core.json import ReadableJSON
from inference.contracts.states import PrincipalKind


class AuditEntry(models.Model):
    """One write that went through. Entries are only ever added: the database refuses to change or remove one (see
    `append_only`).

    address, request_id: of the request, where there was one. target: by kind, id and name, never by a foreign key: the
    entry outlives it. before, after: the values that the write was about, without secrets.
    """

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    actor_kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in PrincipalKind])
    address = models.CharField(max_length=64, blank=True)
    request_id = models.CharField(max_length=100, blank=True)
    action = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=100)
    target_name = models.CharField(max_length=200)
    before = models.JSONField(null=True, encoder=ReadableJSON)
    after = models.JSONField(null=True, encoder=ReadableJSON)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["actor", "-id"]),
            models.Index(fields=["action", "-id"]),
            models.Index(fields=["target_kind", "target_id", "-id"]),
        ]
