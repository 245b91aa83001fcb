"""Serving keys, and the key table that routers check them against."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.access import credentials, selectors
from controlplane.access.models import KeyTableVersion, ServingKey
from controlplane.audit.services import record
from controlplane.core import clock, secret_file, tables
from controlplane.core.errors import Invalid, NotFound
from controlplane.core.locking import locked
from inference.contracts import names
from inference.contracts.auth import derive_token, key_digest, new_serving_key
from inference.contracts.routing import KeyTable
from inference.contracts.states import PriorityClass

log = structlog.get_logger()

PLAYGROUND_KEY_NAME = "playground"
SYSTEM = "tandem"

#: What a router can count without growing: it remembers each request of the last minute.
MOST_REQUESTS_PER_MINUTE = 100_000
MOST_CONCURRENT = 100_000
#: More than any fleet makes.
MOST_TOKENS_PER_MINUTE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class KeyRights:
    """models: names it may call; empty means all. tokens_per_minute: of prompts and answers. Limits hold per
    router; None is no limit."""

    models: Collection[str] = ()
    priority_class: PriorityClass = PriorityClass.STANDARD
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None


PLAIN = KeyRights()

#: The columns that hold them.
_RIGHTS = ("scope", "priority_class", "requests_per_minute", "tokens_per_minute", "max_concurrent")


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key: its row, and the key itself, which nobody can read again."""

    row: ServingKey
    raw: str


def key_create(
    *,
    name: str,
    created_by: str,
    expires_in_days: int | None = None,
    internal: bool = False,
    rights: KeyRights = PLAIN,
) -> IssuedKey:
    """Make a new serving key; routers take it within a second.

    Raises:
        Invalid: the name is empty or too long, or the life or a limit is out of range.
    """
    return _key_store(
        raw=new_serving_key(),
        name=name,
        created_by=created_by,
        expires_in_days=expires_in_days,
        internal=internal,
        rights=rights,
    )


@transaction.atomic
def _key_store(
    *,
    raw: str,
    name: str,
    created_by: str,
    expires_in_days: int | None = None,
    internal: bool = False,
    rights: KeyRights = PLAIN,
) -> IssuedKey:
    now = clock.now()
    row = ServingKey(
        name=credentials.checked_name(name),
        prefix=credentials.prefix_of(raw),
        digest=key_digest(raw),
        internal=internal,
        created_by=created_by,
        created_at=now,
        expires_at=credentials.end_of_life(expires_in_days, now=now),
    )
    _give(row, rights)
    row.save(force_insert=True)
    key_table_publish()
    _record("key.create", row, after=_audited(row))
    return IssuedKey(row=row, raw=raw)


def _give(row: ServingKey, rights: KeyRights) -> None:
    for field, value, most in (
        ("requests_per_minute", rights.requests_per_minute, MOST_REQUESTS_PER_MINUTE),
        ("tokens_per_minute", rights.tokens_per_minute, MOST_TOKENS_PER_MINUTE),
        ("max_concurrent", rights.max_concurrent, MOST_CONCURRENT),
    ):
        if value is not None and not 1 <= value <= most:
            raise Invalid(f"{field} is 1 to {most}, or null for no limit; {value} is neither.", field=field)
    row.scope = credentials.checked_names(rights.models, field="models")
    row.priority_class = rights.priority_class
    row.requests_per_minute = rights.requests_per_minute
    row.tokens_per_minute = rights.tokens_per_minute
    row.max_concurrent = rights.max_concurrent


def _rights(row: ServingKey) -> KeyRights:
    return KeyRights(
        models=row.scope,
        priority_class=PriorityClass(row.priority_class),
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        max_concurrent=row.max_concurrent,
    )


@transaction.atomic
def key_change(*, key_id: UUID, name: str | None = None, **rights: Any) -> ServingKey:
    """Change the name of a key where one is given, and those `rights` (fields of `KeyRights`) that are; routers go by
    them within a second.

    Raises:
        NotFound: there is no such key.
        Invalid: the name or a limit can't be.
    """
    row = _key_locked(key_id)
    before = _audited(row)
    if name is not None:
        row.name = credentials.checked_name(name)
    _give(row, replace(_rights(row), **rights))
    if (after := _audited(row)) != before:
        row.save(update_fields=["name", *_RIGHTS])
        key_table_publish()
        _record("key.change", row, before=before, after=after)
    return row


@transaction.atomic
def key_rotate(*, key_id: UUID, grace_s: float | None = None) -> IssuedKey:
    """Give a key a new secret; the old one stays good for `grace_s` seconds (None: as set), within the same limits.

    Raises:
        NotFound: there is no such key.
        Invalid, Conflict: see `credentials.replace_secret`.
    """
    row = _key_locked(key_id)
    before, raw = _audited(row), new_serving_key()
    credentials.replace_secret(row, raw, grace_s=grace_s)
    row.save(update_fields=["digest", "prefix", "previous_digest", "previous_until"])
    key_table_publish()
    _record("key.rotate", row, before=before, after={**_audited(row), "previous_until": row.previous_until})
    return IssuedKey(row=row, raw=raw)


def key_file_ensure(*, name: str, path: Path, internal: bool = False) -> bool:
    """Have a working key in `path`, readable by its owner only; whether a new one was made.

    Raises:
        OSError: the file can't be written; no key is made then.
    """
    if selectors.key_active(secret_file.read(path)) is not None:
        return False
    with transaction.atomic():
        issued = key_create(name=name, created_by=SYSTEM, internal=internal)
        secret_file.write(path, issued.raw)
    return True


@transaction.atomic
def key_revoke(*, key_id: UUID) -> None:
    """Take the key back; routers refuse it within a second. Revoking twice changes nothing.

    Raises:
        NotFound: there is no such key.
    """
    row = _key_locked(key_id)
    if row.revoked_at is None:
        row.revoked_at = clock.now()
        row.save(update_fields=["revoked_at"])
        key_table_publish()
        _record("key.revoke", row, before=_audited(row))


def _key_locked(key_id: UUID) -> ServingKey:
    row = locked(selectors.key_list()).filter(pk=key_id).first()
    if row is None:
        raise NotFound("key", str(key_id))
    return row


def _audited(row: ServingKey) -> dict[str, object]:
    return credentials.audited(row, **asdict(_rights(row)))


def _record(action: str, row: ServingKey, *, before: object = None, after: object = None) -> None:
    record(action=action, target_kind="key", target_id=row.pk, target_name=row.name, before=before, after=after)
    log.info(action, key=str(row.pk), name=row.name)


@transaction.atomic
def key_table_publish() -> KeyTable:
    """Give the key table a new version and send it to the routers once the transaction is committed."""
    now = clock.now()
    KeyTableVersion.objects.get_or_create(pk=1)
    # The lock comes before the keys are read: a higher version always holds what a lower one held, and later changes.
    row = locked(KeyTableVersion.objects).get(pk=1)
    row.version = tables.next_version(row.version, now)
    row.save(update_fields=["version"])
    table = KeyTable(version=row.version, keys=selectors.key_entries(now=now))
    tables.publish(names.KEY_TABLE_KEY, table)
    return table


def key_table_refresh() -> None:
    """Publish the key table again if Redis does not hold what the database says (it was away, or lost its data).

    For the sweep: cheap while nothing is wrong.
    """
    try:
        held = tables.read(names.KEY_TABLE_KEY, KeyTable)
    except redis.RedisError as error:
        log.warning("key table not checked; the next sweep will", error=str(error))
        return
    if held is None or held.keys != selectors.key_entries(now=clock.now()):
        key_table_publish()


def playground_key() -> str:
    """The key with which the console's playground calls the router.

    It is derived from the cluster secret, so it is never stored; its row exists after the first call.
    """
    raw = f"sk-tandem-{derive_token(settings.CLUSTER_SECRET, 'playground-key')}"
    if selectors.key_active(raw) is None:
        _playground_key_store(raw)
    return raw


def _playground_key_store(raw: str) -> None:
    """Add the row of the playground's key; one of an earlier cluster secret is revoked."""
    try:
        with transaction.atomic():
            ServingKey.objects.filter(internal=True, name=PLAYGROUND_KEY_NAME, revoked_at__isnull=True).update(
                revoked_at=clock.now()
            )
            # The digest is unique: a key that comes back with an earlier secret is the same row again.
            if ServingKey.objects.filter(digest=key_digest(raw)).update(revoked_at=None):
                key_table_publish()
            else:
                _key_store(raw=raw, name=PLAYGROUND_KEY_NAME, created_by=SYSTEM, internal=True)
    except IntegrityError:
        log.debug("the playground key was stored by another process at the same moment")
