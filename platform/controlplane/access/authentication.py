"""Who sends a request: a person with a session, or a program with a management token.

Both put the `Principal` into `request.auth`. A module of its own: Django REST framework imports it while its views are
being loaded.
"""

from __future__ import annotations

from django.contrib.auth.models import User
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from controlplane.access import tokens
from controlplane.access.principals import principal_of_token, principal_of_user
from controlplane.access.tokens import TOKEN_PREFIX
from controlplane.core.address import client_address
from controlplane.core.principal import Principal
from controlplane.core.request_id import current_request_id
from controlplane.core.rest.authentication import SessionAuthentication as PlainSessionAuthentication

_SCHEME = "Bearer"


def owner_of(request: Request) -> User | None:
    """The person behind a request: who is logged in, or whom the token belongs to; None for Tandem's own tokens."""
    return request.user if isinstance(request.user, User) else getattr(request.user, "owner", None)


class Program:
    """What REST framework takes for the user of a request with a token. owner: whom the token belongs to."""

    is_authenticated = is_active = True
    is_anonymous = is_staff = is_superuser = False
    pk = None

    def __init__(self, name: str, owner: User | None) -> None:
        self.name = name
        self.owner = owner

    def get_username(self) -> str:
        return self.name


class SessionAuthentication(PlainSessionAuthentication):
    """A person's login, with CSRF."""

    def authenticate(self, request: Request) -> tuple[User, Principal] | None:
        found = super().authenticate(request)
        if found is None:
            return None
        user = found[0]
        return user, principal_of_user(user, address=client_address(request._request), request_id=current_request_id())


class TokenAuthentication(authentication.BaseAuthentication):
    """`Authorization: Bearer tdm-...`, without CSRF: no browser sends this header by itself."""

    def authenticate(self, request: Request) -> tuple[Program, Principal] | None:
        scheme, _, raw = request.headers.get("Authorization", "").partition(" ")
        raw = raw.strip()
        if scheme.lower() != _SCHEME.lower() or not raw.startswith(TOKEN_PREFIX):
            return None
        token = tokens.token_use(raw)
        if token is None:
            raise exceptions.AuthenticationFailed(
                "This management token is unknown, expired or revoked, or its owner may no longer log in.",
                code="invalid_token",
            )
        principal = principal_of_token(token, address=client_address(request._request), request_id=current_request_id())
        return Program(principal.name, token.owner), principal

    def authenticate_header(self, request: Request) -> str:
        return _SCHEME
