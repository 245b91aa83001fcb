"""Whose turn a sweep is: two beats by mistake, or sweeps piled up in an outage, make one run and not many (F24)."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from controlplane.fleet.models import Watch


def sweep_take_turn(*, now: datetime) -> bool:
    """Whether a sweep is due: none began within the last half of SWEEP_INTERVAL_S. Of several that ask at once, one is
    told so. A turn that lies ahead was taken before our clock went back and counts no more."""
    Watch.objects.get_or_create(pk=1, defaults={"since": now, "swept_at": now})
    earlier = now - timedelta(seconds=settings.SWEEP_INTERVAL_S / 2)
    due = Q(turn_at__isnull=True) | Q(turn_at__lte=earlier) | Q(turn_at__gt=now)
    return Watch.objects.filter(due, pk=1).update(turn_at=now) == 1
