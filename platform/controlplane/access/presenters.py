"""People, tokens and keys as the API shows them. A secret is part of one answer only: the one to its making."""

from __future__ import annotations

import msgspec
from django.contrib.auth.models import User

from controlplane.access.lockout import Lockout
from controlplane.access.models import ManagementToken, OidcIdentity, ServingKey
from controlplane.access.principals import grants_of, role_of
from controlplane.core.clock import iso, iso_or_none
from inference.contracts.states import PriorityClass, UserRole
from inference.contracts.views.access import IssuedKeyView, IssuedTokenView, KeyView, LockoutView, TokenView, UserView


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
        priority_class=PriorityClass(row.priority_class),
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
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
