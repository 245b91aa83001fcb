"""The control plane's only source of "now", so that tests can set it."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    return timezone.now()


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with milliseconds, as the console reads it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else iso(moment)
