"""People, tokens and keys as the API shows them. A secret is part of one answer only: the one to its making."""

from __future__ import annotations

import msgspec
from django.contrib.auth.models import User

from controlplane.access.lockout import Lockout, Subject
from controlplane.access.models import ManagementToken, OidcIdentity, ServingKey
from controlplane.access.principals import grants_of, role_of
from controlplane.core.clock import iso, iso_or_none
from inference.contracts.states import UserRole


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A serving key without its secret. prefix: its first characters, for recognising it. models: names it may call;
    empty means all. requests_per_minute, max_concurrent: per router process; null is no limit. last_used_at: to the
    minute; null: never. previous_until: until when the secret before the last rotation is good. Times are ISO 8601,
    UTC."""

    id: str
    name: str
    prefix: str
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    models: tuple[str, ...]
    requests_per_minute: int | None
    max_concurrent: int | None
    last_used_at: str | None
    previous_until: str | None


class IssuedKeyView(KeyView, frozen=True, kw_only=True):
    """A serving key with a new secret. key: shown this once; only its digest is kept."""

    key: str


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A management token without its secret. owner: whose rights it never exceeds; null: Tandem's own. role: at most
    this. only: the deployments it may see and change; null means all."""

    id: str
    name: str
    prefix: str
    owner: str | None
    role: UserRole
    only: tuple[str, ...] | None
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None
    previous_until: str | None


class IssuedTokenView(TokenView, frozen=True, kw_only=True):
    """A management token with a new secret. token: shown this once; only its digest is kept."""

    token: str


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A person. grants: deployment name -> role there, where it is higher. local: has a password here. oidc: comes
    through the identity provider."""

    username: str
    role: UserRole
    grants: dict[str, UserRole]
    active: bool
    local: bool
    oidc: bool
    created_at: str
    last_login_at: str | None


class LockoutView(msgspec.Struct, frozen=True, kw_only=True):
    """A user name or an address whose logins are refused after too many failures. until: when one is looked at
    again."""

    subject: Subject
    value: str
    failures: int
    until: str


def key_view(row: ServingKey) -> KeyView:
    return KeyView(
        id=str(row.pk),
        name=row.name,
        prefix=row.prefix,
        created_by=row.created_by,
        created_at=iso(row.created_at),
        expires_at=iso_or_none(row.expires_at),
        revoked_at=iso_or_none(row.revoked_at),
        models=tuple(row.scope),
        requests_per_minute=row.requests_per_minute,
        max_concurrent=row.max_concurrent,
        last_used_at=iso_or_none(row.last_used_at),
        previous_until=iso_or_none(row.previous_until),
    )


def issued_key_view(row: ServingKey, key: str) -> IssuedKeyView:
    return IssuedKeyView(**msgspec.structs.asdict(key_view(row)), key=key)


def token_view(row: ManagementToken) -> TokenView:
    return TokenView(
        id=str(row.pk),
        name=row.name,
        prefix=row.prefix,
        owner=None if row.owner is None else row.owner.get_username(),
        role=UserRole(row.role),
        only=None if row.only is None else tuple(row.only),
        created_by=row.created_by,
        created_at=iso(row.created_at),
        expires_at=iso_or_none(row.expires_at),
        revoked_at=iso_or_none(row.revoked_at),
        last_used_at=iso_or_none(row.last_used_at),
        previous_until=iso_or_none(row.previous_until),
    )


def issued_token_view(row: ManagementToken, token: str) -> IssuedTokenView:
    return IssuedTokenView(**msgspec.structs.asdict(token_view(row)), token=token)


def user_view(user: User) -> UserView:
    """Of a user from `users.user_list`, or it costs queries."""
    return UserView(
        username=user.get_username(),
        role=role_of(user),
        grants=grants_of(user),
        active=user.is_active,
        local=user.has_usable_password(),
        oidc=comes_by_oidc(user),
        created_at=iso(user.date_joined),
        last_login_at=iso_or_none(user.last_login),
    )


def comes_by_oidc(user: User) -> bool:
    try:
        return user.oidc_identity is not None
    except OidcIdentity.DoesNotExist:
        return False


def lockout_view(lockout: Lockout) -> LockoutView:
    return LockoutView(
        subject=lockout.subject, value=lockout.value, failures=lockout.failures, until=iso(lockout.until)
    )
