"""Reading serving keys."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from controlplane.access import credentials
from controlplane.access.models import ServingKey
from controlplane.core.errors import NotFound
from inference.contracts.auth import key_digest
from inference.contracts.routing import ServingKeyEntry
from inference.contracts.states import PriorityClass


def key_list() -> QuerySet[ServingKey]:
    """What people made, newest first, revoked ones too; never the playground's own key."""
    return ServingKey.objects.filter(internal=False)


def key_get(key_id: UUID) -> ServingKey:
    """
    Raises:
        NotFound: there is no such key.
    """
    row = key_list().filter(pk=key_id).first()
    if row is None:
        raise NotFound("key", str(key_id))
    return row


def key_active(raw: str) -> ServingKey | None:
    """The row of this key if it is not revoked."""
    return ServingKey.objects.filter(digest=key_digest(raw), revoked_at__isnull=True).first()


def key_entries(*, now: datetime) -> tuple[ServingKeyEntry, ...]:
    """Every key that may call, in an order that does not change by itself. A rotated key is two entries with one id,
    and thereby one set of limits, until its grace ends."""
    entries = []
    for row in ServingKey.objects.filter(credentials.usable(at=now)).order_by("pk"):
        entries.append(_entry(row, row.digest, row.expires_at))
        if row.previous_digest is not None and row.previous_until is not None and row.previous_until > now:
            ends = row.previous_until if row.expires_at is None else min(row.previous_until, row.expires_at)
            entries.append(_entry(row, row.previous_digest, ends))
    return tuple(entries)


def _entry(row: ServingKey, digest: str, expires_at: datetime | None) -> ServingKeyEntry:
    return ServingKeyEntry(
        key_id=str(row.pk),
        digest=digest,
        expires_at=None if expires_at is None else expires_at.timestamp(),
        models=tuple(row.scope),
        priority_class=PriorityClass(row.priority_class),
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        max_concurrent=row.max_concurrent,
    )
