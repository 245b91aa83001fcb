"""Login, serving keys, and the key table that routers check them against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.contrib.auth import authenticate, login
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from controlplane.access import selectors
from controlplane.access.models import KeyTableVersion, ServingKey
from controlplane.core import clock, secret_file, tables
from controlplane.core.errors import Invalid, NotFound, Unauthenticated
from inference.contracts import names
from inference.contracts.auth import derive_token, key_digest, new_serving_key
from inference.contracts.routing import KeyTable

log = structlog.get_logger()

PLAYGROUND_KEY_NAME = "playground"
SYSTEM = "tandem"

_PREFIX_LENGTH = len("sk-tandem-") + 6
_LONGEST_LIFE_DAYS = 3650


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key: its row, and the key itself, which nobody can read again."""

    row: ServingKey
    raw: str


def session_start(*, request: HttpRequest, username: str, password: str) -> User:
    """Log `request` in.

    Raises:
        Unauthenticated: the name or the password is wrong (which of the two is not told).
    """
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        log.info("login refused", username=username)
        raise Unauthenticated("The user name or the password is wrong.", code="bad_credentials")
    login(request, user)
    return user


@transaction.atomic
def admin_ensure(*, username: str, password: str) -> bool:
    """Create an administrator unless somebody has this name already, who then stays as they are; whether it did.

    Raises:
        Invalid: the name or the password can't be one.
    """
    if User.objects.filter(username=username).exists():
        return False
    user = User(username=username, is_staff=True, is_superuser=True)
    try:
        user.clean_fields(exclude=["password"])
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages)) from error
    user.set_password(password)
    user.save()
    log.info("administrator created", username=username)
    return True


def key_create(*, name: str, created_by: str, expires_in_days: int | None = None, internal: bool = False) -> IssuedKey:
    """Make a new serving key; routers take it within a second.

    Raises:
        Invalid: the name is empty or too long, or the life is out of range.
    """
    return _key_store(
        raw=new_serving_key(), name=name, created_by=created_by, expires_in_days=expires_in_days, internal=internal
    )


@transaction.atomic
def _key_store(
    *, raw: str, name: str, created_by: str, expires_in_days: int | None = None, internal: bool = False
) -> IssuedKey:
    now = clock.now()
    row = ServingKey.objects.create(
        name=_checked_name(name),
        prefix=raw[:_PREFIX_LENGTH],
        digest=key_digest(raw),
        internal=internal,
        created_by=created_by,
        created_at=now,
        expires_at=None if expires_in_days is None else now + timedelta(days=_checked_days(expires_in_days)),
    )
    key_table_publish()
    log.info("serving key created", key=str(row.pk), name=row.name, created_by=created_by)
    return IssuedKey(row=row, raw=raw)


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 100:
        raise Invalid(f"A key's name has 1 to 100 characters; this one has {len(name)}.", field="name")
    return name


def _checked_days(days: int) -> int:
    if not 1 <= days <= _LONGEST_LIFE_DAYS:
        raise Invalid(
            f"A key lives 1 to {_LONGEST_LIFE_DAYS} days, or for ever without expires_in_days; {days} is neither.",
            field="expires_in_days",
        )
    return days


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
def key_revoke(*, key_id: UUID, revoked_by: str) -> None:
    """Take the key back; routers refuse it within a second. Revoking twice changes nothing.

    Raises:
        NotFound: there is no such key.
    """
    revoked = selectors.key_list().filter(pk=key_id, revoked_at__isnull=True).update(revoked_at=clock.now())
    if revoked:
        key_table_publish()
        log.info("serving key revoked", key=str(key_id), revoked_by=revoked_by)
    elif not selectors.key_list().filter(pk=key_id).exists():
        raise NotFound("key", str(key_id))


@transaction.atomic
def key_table_publish() -> KeyTable:
    """Give the key table a new version and send it to the routers once the transaction is committed."""
    now = clock.now()
    KeyTableVersion.objects.get_or_create(pk=1)
    # The lock comes before the keys are read: a higher version always holds what a lower one held, and later changes.
    row = KeyTableVersion.objects.select_for_update().get(pk=1)
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
