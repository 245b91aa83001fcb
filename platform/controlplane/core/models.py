"""What the REST layer itself keeps."""

from __future__ import annotations

import uuid

from django.db import models

KEY_MAX = 255


class IdempotentRequest(models.Model):
    """One write that its caller named by an Idempotency-Key, so that sending it again does nothing again.

    principal: kind and name. digest: of method, address and body. claim: of the process that answers it; another one
    may take it over once that one is overdue. status, answer: what was answered, as JSON; None while it runs.
    held_secret: the answer showed a secret, which is masked here.
    """

    principal = models.CharField(max_length=180)
    key = models.CharField(max_length=KEY_MAX)
    digest = models.CharField(max_length=64)
    claim = models.UUIDField(default=uuid.uuid4)
    claimed_at = models.DateTimeField(db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    answer = models.TextField(null=True)
    held_secret = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["principal", "key"], name="one_request_per_idempotency_key")]
