"""What serving keys and management tokens have in common: names, lives, rotation, and their looks in the audit."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from controlplane.access.models import DEPLOYMENT_NAME_LENGTH, Credential
from controlplane.core import clock
from controlplane.core.errors import Conflict, Invalid
from inference.contracts.auth import key_digest

_LONGEST_LIFE_DAYS = 3650
_LONGEST_GRACE_S = 30 * 86_400
_MOST_NAMES = 200
_SHOWN = 6


def usable(*, at: datetime) -> Q:
    """Rows that are good at `at`."""
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=at))


def holding(raw: str, *, at: datetime) -> Q:
    """Rows whose secret is `raw`, or was until a rotation whose grace lasts."""
    digest = key_digest(raw)
    return Q(digest=digest) | Q(previous_digest=digest, previous_until__gt=at)


def prefix_of(raw: str) -> str:
    """The kind ("tdm-", "sk-tandem-") and some characters more: enough to recognise it, no help in guessing it."""
    kind = "sk-tandem-" if raw.startswith("sk-tandem-") else "tdm-"
    return raw[: len(kind) + _SHOWN]


def checked_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 100:
        raise Invalid(f"A name has 1 to 100 characters; this one has {len(name)}.", field="name")
    return name


def end_of_life(days: int | None, *, now: datetime) -> datetime | None:
    """When something made `now` ends; None is never."""
    if days is None:
        return None
    if not 1 <= days <= _LONGEST_LIFE_DAYS:
        raise Invalid(
            f"It can live 1 to {_LONGEST_LIFE_DAYS} days, or for ever without expires_in_days; {days} is neither.",
            field="expires_in_days",
        )
    return now + timedelta(days=days)


def checked_names(names: Collection[str], *, field: str) -> list[str]:
    """Names of deployments or models, each once and in order. Whether they exist is not asked: they may come later."""
    if len(names) > _MOST_NAMES:
        raise Invalid(f"At most {_MOST_NAMES} names can be listed here, not {len(names)}.", field=field)
    for name in names:
        if not 1 <= len(name.strip()) <= DEPLOYMENT_NAME_LENGTH:
            raise Invalid(f"A name has 1 to {DEPLOYMENT_NAME_LENGTH} characters; {name[:120]!r} has not.", field=field)
    return sorted({name.strip() for name in names})


def replace_secret(row: Credential, raw: str, *, grace_s: float | None) -> None:
    """Give `row` (unsaved) the secret `raw`; the one before stays good for so long.

    A second rotation within the grace of a first ends the oldest secret at once.

    Raises:
        Invalid: the grace is out of range.
        Conflict: it has ended, and a new secret would not bring it back.
    """
    grace = settings.ROTATION_GRACE_S if grace_s is None else grace_s
    if not 0 <= grace <= _LONGEST_GRACE_S:
        raise Invalid(f"The old one can stay good for 0 to {_LONGEST_GRACE_S} seconds, not {grace:g}.", field="grace_s")
    now = clock.now()
    if row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        raise Conflict(f"{row.name!r} has ended; make a new one instead.", code="ended")
    row.previous_digest, row.previous_until = (row.digest, now + timedelta(seconds=grace)) if grace else (None, None)
    row.digest, row.prefix = key_digest(raw), prefix_of(raw)


def audited(row: Credential, **more: Any) -> dict[str, Any]:
    """What the audit keeps of a row: nothing that helps to use it."""
    return {"name": row.name, "prefix": row.prefix, "expires_at": row.expires_at, **more}
