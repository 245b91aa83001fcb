"""The durable record of what operators asked for."""

from __future__ import annotations

import uuid

from django.db import models

from inference.contracts.states import OPERATION_OPEN, OperationKind, OperationState, StepState

_OPEN = sorted(OPERATION_OPEN)


class Operation(models.Model):
    """One operator intent: what was asked for, when, by whom, and how it went.

    deployment: name of the one that it is about, for roles that are granted there; empty where it is about none.
    request: the typed request as JSON; enough to begin it later, or again. preview: `OperationPreview` as JSON; null
    when nobody worked one out. retry_of: the operation that this one tries again. cancelled_by: who took it back.
    started_at: null while queued, and for ever when it ended in the queue.
    running_s: seconds that the sweep has seen it run or, while queued, wait; seen_at: when it last looked
    (`running_time.py`).
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in OperationKind])
    state = models.CharField(max_length=16, choices=[(state, state) for state in OperationState])
    title = models.CharField(max_length=200)
    deployment = models.CharField(max_length=100, blank=True)
    requested_by = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    before = models.TextField(blank=True)
    after = models.TextField(blank=True)
    request = models.JSONField(default=dict)
    preview = models.JSONField(null=True)
    retry_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="retries")
    progress = models.FloatField(default=0.0)
    outcome = models.TextField(blank=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    requested_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    running_s = models.FloatField(default=0.0)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-requested_at", "-id"]
        indexes = [
            models.Index(fields=["-requested_at", "-id"]),
            models.Index(fields=["state"]),
            models.Index(fields=["deployment"]),
        ]
        constraints = [
            models.CheckConstraint(
                name="operation_progress_is_a_share", condition=models.Q(progress__gte=0, progress__lte=1)
            ),
            models.CheckConstraint(
                name="operation_times_fit_its_state",
                condition=models.Q(state=OperationState.QUEUED, started_at__isnull=True, finished_at__isnull=True)
                | models.Q(state=OperationState.RUNNING, started_at__isnull=False, finished_at__isnull=True)
                | (~models.Q(state__in=_OPEN) & models.Q(finished_at__isnull=False)),
            ),
        ]

    def __str__(self) -> str:
        return self.title


class OperationTarget(models.Model):
    """Something that an operation works on. Named by kind and id, never by a foreign key: the record outlives it.

    held: its operation runs. At most one operation holds a target at any moment; the database itself sees to it.
    The rows of queued operations, by their own ids, are the queue: no clock decides who comes first.
    """

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="targets")
    kind = models.CharField(max_length=32)
    target_id = models.CharField(max_length=64)
    name = models.CharField(max_length=200)
    held = models.BooleanField(default=False)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["kind", "target_id"])]
        constraints = [
            models.UniqueConstraint(fields=["operation", "kind", "target_id"], name="operation_names_a_target_once"),
            models.UniqueConstraint(
                fields=["kind", "target_id"], condition=models.Q(held=True), name="one_operation_holds_a_target"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class OperationStep(models.Model):
    """One thing that an operation does or did, in words. cause: why it was done, or why it failed.

    key: names the step to the code that moves it on; empty for a remark. At most one step of a key runs at a time.
    """

    operation = models.ForeignKey(Operation, on_delete=models.CASCADE, related_name="steps")
    key = models.CharField(max_length=100, blank=True)
    text = models.CharField(max_length=300)
    state = models.CharField(max_length=8, choices=[(state, state) for state in StepState], default=StepState.DONE)
    cause = models.TextField(blank=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["operation", "key"],
                condition=models.Q(state=StepState.RUNNING) & ~models.Q(key=""),
                name="one_running_step_per_key",
            ),
            models.CheckConstraint(
                name="step_finished_iff_not_running",
                condition=models.Q(state=StepState.RUNNING, finished_at__isnull=True)
                | (~models.Q(state=StepState.RUNNING) & models.Q(finished_at__isnull=False)),
            ),
        ]

    def __str__(self) -> str:
        return self.text
