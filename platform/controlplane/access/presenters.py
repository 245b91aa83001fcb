"""Keys as the API shows them. The key itself is part of one answer only: the one to its creation."""

from __future__ import annotations

import msgspec

from controlplane.access.models import ServingKey
from controlplane.core.clock import iso, iso_or_none


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A serving key without its secret. prefix: its first characters, for recognising it. Times are ISO 8601, UTC."""

    id: str
    name: str
    prefix: str
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class IssuedKeyView(KeyView, frozen=True, kw_only=True):
    """A new serving key. key: shown this once; only its digest is kept."""

    key: str


def key_view(row: ServingKey) -> KeyView:
    return KeyView(
        id=str(row.pk),
        name=row.name,
        prefix=row.prefix,
        created_by=row.created_by,
        created_at=iso(row.created_at),
        expires_at=iso_or_none(row.expires_at),
        revoked_at=iso_or_none(row.revoked_at),
    )


def issued_key_view(row: ServingKey, key: str) -> IssuedKeyView:
    return IssuedKeyView(**msgspec.structs.asdict(key_view(row)), key=key)
