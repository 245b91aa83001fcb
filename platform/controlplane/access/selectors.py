"""Reading serving keys."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.access.models import ServingKey
from inference.contracts.auth import key_digest
from inference.contracts.routing import ServingKeyEntry


def key_list() -> QuerySet[ServingKey]:
    """What people made, newest first, revoked ones too; never the playground's own key."""
    return ServingKey.objects.filter(internal=False)


def key_active(raw: str) -> ServingKey | None:
    """The row of this key if it is not revoked."""
    return ServingKey.objects.filter(digest=key_digest(raw), revoked_at__isnull=True).first()


def key_entries(*, now: datetime) -> tuple[ServingKeyEntry, ...]:
    """Every key that may call, in an order that does not change by itself."""
    usable = ServingKey.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), revoked_at__isnull=True)
    return tuple(
        ServingKeyEntry(
            key_id=str(row.pk),
            digest=row.digest,
            expires_at=None if row.expires_at is None else row.expires_at.timestamp(),
        )
        for row in usable.order_by("pk")
    )
