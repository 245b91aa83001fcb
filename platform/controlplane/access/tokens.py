"""Management tokens: what programs send to the REST API."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from controlplane.access import credentials
from controlplane.access.models import ManagementToken
from controlplane.access.principals import highest_of
from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.errors import Conflict, Forbidden, Invalid, NotFound
from controlplane.core.locking import locked
from controlplane.core.principal import Principal, at_least
from inference.contracts.auth import key_digest, new_management_token
from inference.contracts.states import PrincipalKind, UserRole

log = structlog.get_logger()

TOKEN_PREFIX = "tdm-"  # noqa: S105

#: A token that is used all the time costs one write a minute.
USE_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token with a new secret, and that secret, which nobody can read again."""

    row: ManagementToken
    raw: str


def token_use(raw: str) -> ManagementToken | None:
    """The token whose secret this is, with its owner's rights loaded; None where it lets nobody in."""
    now = clock.now()
    token = (
        ManagementToken.objects.filter(credentials.holding(raw, at=now), credentials.usable(at=now))
        .filter(Q(owner__isnull=True) | Q(owner__is_active=True))
        .select_related("owner__account")
        .prefetch_related("owner__deployment_grants")
        .first()
    )
    if token is not None and (token.last_used_at is None or token.last_used_at <= now - USE_NOTED_EVERY):
        ManagementToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def tokens_seen_by(by: Principal, user: User | None) -> QuerySet[ManagementToken]:
    """Newest first, ended ones too: all of them for an admin, for others their own."""
    tokens = ManagementToken.objects.select_related("owner")
    if by.may(UserRole.ADMIN):
        return tokens
    return tokens.filter(owner=user) if user is not None else tokens.none()


@transaction.atomic
def token_create(
    *,
    by: Principal,
    owner: User | None,
    name: str,
    role: UserRole,
    only: Collection[str] | None = None,
    expires_in_days: int | None = None,
) -> IssuedToken:
    """Make a token that belongs to `owner`; None: to Tandem itself.

    Raises:
        Forbidden: `by` may make none, or none with this role.
        Invalid: the name, the life or the deployments can't be.
        Conflict: a token of this name is in use.
    """
    _require_maker(by)
    if not at_least(highest_of(by), role):
        raise Forbidden(f"You are {highest_of(by)}, so you can't make a token that is {role}.", code="role_too_high")
    if only is not None and not only:
        raise Invalid("Name at least one deployment, or leave it out for all of them.", field="only")
    now, raw = clock.now(), new_management_token()
    row = ManagementToken(
        name=credentials.checked_name(name),
        prefix=credentials.prefix_of(raw),
        digest=key_digest(raw),
        owner=owner,
        role=role,
        only=None if only is None else credentials.checked_names(only, field="only"),
        created_by=by.name,
        created_at=now,
        expires_at=credentials.end_of_life(expires_in_days, now=now),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"A token named {row.name!r} is in use; choose another name.", code="name_taken") from error
    _record("token.create", row, after=_audited(row))
    return IssuedToken(row=row, raw=raw)


@transaction.atomic
def token_rotate(*, by: Principal, user: User | None, token_id: UUID, grace_s: float | None = None) -> IssuedToken:
    """Give a token a new secret; the old one stays good for `grace_s` seconds (None: as set).

    Raises:
        NotFound, Forbidden, Invalid, Conflict: see `token_create` and `credentials.replace_secret`.
    """
    _require_maker(by)
    row = _locked(by, user, token_id)
    before, raw = _audited(row), new_management_token()
    credentials.replace_secret(row, raw, grace_s=grace_s)
    row.save(update_fields=["digest", "prefix", "previous_digest", "previous_until"])
    _record("token.rotate", row, before=before, after={**_audited(row), "previous_until": row.previous_until})
    return IssuedToken(row=row, raw=raw)


@transaction.atomic
def token_revoke(*, by: Principal, user: User | None, token_id: UUID) -> None:
    """End a token now. Revoking twice changes nothing.

    Raises:
        NotFound: there is none that `by` may see.
    """
    _require_maker(by)
    row = _locked(by, user, token_id)
    if row.revoked_at is None:
        row.revoked_at = clock.now()
        row.save(update_fields=["revoked_at"])
        _record("token.revoke", row, before=_audited(row))


def _require_maker(by: Principal) -> None:
    """A leaked token must not be able to outlive itself."""
    if by.kind is PrincipalKind.TOKEN and not by.may(UserRole.ADMIN):
        raise Forbidden("Only a token of an admin for all deployments may manage tokens.", code="tokens_need_a_person")
    if not at_least(highest_of(by), UserRole.OPERATOR):
        raise Forbidden("Viewers have no tokens; ask an admin for another role.", code="forbidden")


def _locked(by: Principal, user: User | None, token_id: UUID) -> ManagementToken:
    row = locked(tokens_seen_by(by, user), of=["self"]).filter(pk=token_id).first()
    if row is None:
        raise NotFound("token", str(token_id))
    return row


def _audited(row: ManagementToken) -> dict[str, object]:
    return credentials.audited(
        row, owner=None if row.owner is None else row.owner.get_username(), role=row.role, only=row.only
    )


def _record(action: str, row: ManagementToken, *, before: object = None, after: object = None) -> None:
    record(action=action, target_kind="token", target_id=row.pk, target_name=row.name, before=before, after=after)
    log.info(action, token=str(row.pk), name=row.name)
