"""Roll-ups of telemetry windows for charts beyond the live ten minutes."""

from __future__ import annotations

from django.db import models


class RollUp(models.Model):
    """Ten seconds of one deployment (pool_id empty), one pool, or one revision of a deployment (pool_id empty,
    revision above 0), as a merged `Window` (contracts) in its wire form.

    Percentiles are read from merged histograms, never averaged.
    """

    STEP_S = 10

    deployment = models.CharField(max_length=100)
    pool_id = models.CharField(max_length=64, blank=True)
    revision = models.PositiveIntegerField(default=0)
    second = models.PositiveBigIntegerField(help_text="Unix second at which the step begins.")
    window = models.TextField()

    class Meta:
        ordering = ["second"]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment", "pool_id", "revision", "second"], name="one_roll_up_per_step"
            ),
        ]
        indexes = [models.Index(fields=["second"])]


class WindowCursor(models.Model):
    """One row: how far the windows of the stream are contained in the roll-ups. Moves in the same transaction."""

    ONLY = 1

    position = models.CharField(max_length=50, help_text="Stream id of the last window contained.")
