"""People and programs of the access tests."""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from controlplane.access import tokens, users
from controlplane.core.principal import SYSTEM
from inference.contracts.states import UserRole

PASSWORD = "correct horse battery"
VIEWER, OPERATOR, ADMIN = UserRole.VIEWER, UserRole.OPERATOR, UserRole.ADMIN


def person(name: str, role: UserRole = VIEWER, grants: Mapping[str, UserRole] | None = None) -> User:
    return users.user_create(username=name, password=PASSWORD, role=role, grants=grants)


def logged_in(user: User) -> APIClient:
    client = APIClient()
    client.force_login(user)
    return client


def with_token(raw: str) -> APIClient:
    """A program: CSRF would be checked, if it had a session."""
    client = APIClient(enforce_csrf_checks=True)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {raw}")
    return client


def token(role: UserRole = ADMIN, owner: User | None = None, name: str = "ci", **more: object) -> tokens.IssuedToken:
    return tokens.token_create(by=SYSTEM, owner=owner, name=name, role=role, **more)
