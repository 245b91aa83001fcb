"""The durable record of what operators asked for."""

from __future__ import annotations

import uuid

from django.db import models

from inference.contracts.states import OperationKind, OperationState


class Operation(models.Model):
    """One operator intent. It names its target by kind and id, never by a foreign key: the record outlives the target.

    target_generation: the target's generation that this operation asked for; done means it was observed.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in OperationKind])
    state = models.CharField(
        max_length=16, choices=[(state, state) for state in OperationState], default=OperationState.RUNNING
    )
    target_kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=200)
    target_generation = models.PositiveIntegerField(default=0)
    title = models.CharField(max_length=200)
    requested_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    before = models.CharField(max_length=200, blank=True)
    after = models.CharField(max_length=200, blank=True)
    progress = models.FloatField(default=0.0)
    outcome = models.TextField(blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-started_at"]
        indexes = [models.Index(fields=["target_kind", "target_id", "state"])]
        constraints = [
            models.UniqueConstraint(
                fields=["target_kind", "target_id"],
                condition=models.Q(state=OperationState.RUNNING),
                name="one_running_operation_per_target",
            ),
            models.CheckConstraint(
                name="operation_progress_is_a_share", condition=models.Q(progress__gte=0, progress__lte=1)
            ),
            models.CheckConstraint(
                name="operation_finished_iff_not_running",
                condition=models.Q(state=OperationState.RUNNING, finished_at__isnull=True)
                | (~models.Q(state=OperationState.RUNNING) & models.Q(finished_at__isnull=False)),
            ),
        ]


class OperationStep(models.Model):
    """One thing that happened on the way, in words. Append-only; equal texts in a row are written once."""

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="steps")
    at = models.DateTimeField()
    text = models.CharField(max_length=300)

    class Meta:
        ordering = ["id"]
