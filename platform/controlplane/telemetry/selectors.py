"""Reading roll-ups."""

from __future__ import annotations

from datetime import datetime

from controlplane.telemetry.models import RollUp
from inference.contracts import codec
from inference.contracts.timings import Window


def revision_window(deployment: str, revision: int, *, since: datetime) -> Window:
    """All that one revision of a deployment did in the steps that began at `since` or later, merged."""
    merged = Window(second=0, source="", deployment=deployment, revision=revision)
    rows = RollUp.objects.filter(
        deployment=deployment, pool_id="", revision=revision, second__gte=int(since.timestamp())
    )
    for window in rows.values_list("window", flat=True):
        merged.absorb(codec.decode(window, Window))
    return merged
