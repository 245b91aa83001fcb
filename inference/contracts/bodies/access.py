"""Bodies about keys, tokens, people and their logins."""

from __future__ import annotations

import msgspec

from inference.contracts.bodies.body import Body
from inference.contracts.states import PriorityClass, Subject, UserRole


class KeyBody(Body, frozen=True, kw_only=True):
    """expires_in_days: 1 to 3650; left out, the key lives until it is revoked. models: names it may call; left out or
    empty, all. priority_class: whose requests go first while there is not room for all. requests_per_minute,
    tokens_per_minute (of prompts and answers), max_concurrent: per router; left out, no limit."""

    name: str
    expires_in_days: int | None = None
    models: list[str] = []
    priority_class: PriorityClass = PriorityClass.STANDARD
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrent: int | None = None


class KeyChangeBody(Body, frozen=True, kw_only=True):
    """What is left out stays as it is; null takes a limit away."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    models: list[str] | msgspec.UnsetType = msgspec.UNSET
    priority_class: PriorityClass | msgspec.UnsetType = msgspec.UNSET
    requests_per_minute: int | msgspec.UnsetType | None = msgspec.UNSET
    tokens_per_minute: int | msgspec.UnsetType | None = msgspec.UNSET
    max_concurrent: int | msgspec.UnsetType | None = msgspec.UNSET


class RotateBody(Body, frozen=True, kw_only=True):
    """grace_s: seconds for which the old secret stays good, at most 30 days; left out, as the settings say."""

    grace_s: float | None = None


class TokenBody(Body, frozen=True, kw_only=True):
    """role: at most your own. only: the deployments that it may see and change; left out, all that you may.
    expires_in_days: 1 to 3650; left out, the token lives until it is revoked."""

    name: str
    role: UserRole
    only: list[str] | None = None
    expires_in_days: int | None = None


class LoginBody(Body, frozen=True, kw_only=True):
    username: str
    password: str


class PasswordBody(Body, frozen=True, kw_only=True):
    current: str
    new: str


class UserBody(Body, frozen=True, kw_only=True):
    """password: the first one; its owner can change it. grants: deployment name -> role there, where it is higher."""

    username: str
    password: str
    role: UserRole = UserRole.VIEWER
    grants: dict[str, UserRole] = {}


class UserChangeBody(Body, frozen=True, kw_only=True):
    """What is left out stays as it is. active: false logs out everywhere and stops all tokens of this person."""

    role: UserRole | None = None
    grants: dict[str, UserRole] | None = None
    active: bool | None = None


class NewPasswordBody(Body, frozen=True, kw_only=True):
    password: str


class UnlockBody(Body, frozen=True, kw_only=True):
    subject: Subject
    value: str
