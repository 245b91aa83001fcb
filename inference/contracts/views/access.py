"""People, tokens and keys. A secret is part of one answer only: the one to its making."""

from __future__ import annotations

import msgspec

from inference.contracts.states import PrincipalKind, PriorityClass, Subject, UserRole


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A serving key without its secret. prefix: its first characters, for recognising it. models: names it may call;
    empty means all. priority_class: whose requests go first while there is not room for all. requests_per_minute,
    tokens_per_minute (of prompts and answers), max_concurrent: per router; null is no limit. last_used_at: to
    the minute; null: never. previous_until: until when the secret before the last rotation is good. Times are ISO 8601,
    UTC."""

    id: str
    name: str
    prefix: str
    created_by: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    models: tuple[str, ...]
    priority_class: PriorityClass
    requests_per_minute: int | None
    tokens_per_minute: int | None
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


class UnlockedView(msgspec.Struct, frozen=True, kw_only=True):
    """failures: how many were forgotten."""

    failures: int


class SessionUser(msgspec.Struct, frozen=True, kw_only=True):
    """A person, or a program with a token. role: everywhere. grants: deployment name -> role there, where it is higher.
    only: the deployments that it may see and change; null means all. local: has a password here that can be
    changed."""

    username: str
    kind: PrincipalKind
    role: UserRole
    grants: dict[str, UserRole]
    only: tuple[str, ...] | None
    local: bool


class OidcView(msgspec.Struct, frozen=True, kw_only=True):
    """Another way to log in: `name` is for the button, `url` is where it leads."""

    name: str
    url: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in, if anybody. csrf: to be sent as X-CSRFToken with everything that changes something. oidc: null
    where there is no identity provider."""

    user: SessionUser | None
    csrf: str
    oidc: OidcView | None
