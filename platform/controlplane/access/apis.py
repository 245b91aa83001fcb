"""REST: the login session and serving keys."""

from __future__ import annotations

from uuid import UUID

import msgspec
from django.contrib.auth import logout
from django.middleware.csrf import get_token
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access import selectors, services
from controlplane.access.presenters import IssuedKeyView, KeyView, issued_key_view, key_view
from controlplane.core.api import answer, body
from controlplane.core.authentication import SessionAuthentication
from controlplane.core.schema import documented


class SessionUser(msgspec.Struct, frozen=True, kw_only=True):
    username: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in, if anybody. csrf: to be sent as X-CSRFToken with everything that changes something."""

    user: SessionUser | None
    csrf: str


class LoginBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    username: str
    password: str


class KeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """expires_in_days: 1 to 3650; left out, the key lives until it is revoked."""

    name: str
    expires_in_days: int | None = None


class SessionApi(APIView):
    permission_classes = [AllowAny]

    @documented("Show the session", answers={200: SessionView}, public=True)
    def get(self, request: Request) -> Response:
        """Also sets the CSRF cookie, so this comes first."""
        return answer(_session_view(request))

    @documented("Log in", body=LoginBody, answers={200: SessionView}, refusals=[401, 403], public=True)
    def post(self, request: Request) -> Response:
        # REST framework checks CSRF only where somebody is logged in; a login must not be forged either.
        SessionAuthentication().enforce_csrf(request)
        credentials = body(request, LoginBody)
        services.session_start(request=request._request, username=credentials.username, password=credentials.password)
        request.user = request._request.user
        return answer(_session_view(request))

    @documented("Log out", answers={204: None}, refusals=[403], public=True)
    def delete(self, request: Request) -> Response:
        logout(request._request)
        return Response(status=204)


class KeyListApi(APIView):
    @documented("List serving keys", answers={200: list[KeyView]})
    def get(self, request: Request) -> Response:
        """Newest first, revoked ones included."""
        return answer([key_view(row) for row in selectors.key_list()])

    @documented("Create a serving key", body=KeyBody, answers={201: IssuedKeyView})
    def post(self, request: Request) -> Response:
        """The answer is the only place where the key is ever shown."""
        wanted = body(request, KeyBody)
        issued = services.key_create(
            name=wanted.name, expires_in_days=wanted.expires_in_days, created_by=request.user.get_username()
        )
        return answer(issued_key_view(issued.row, issued.raw), 201)


class KeyApi(APIView):
    @documented("Revoke a serving key", answers={204: None}, refusals=[404])
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Routers refuse the key within a second. It stays in the list as revoked."""
        services.key_revoke(key_id=key_id, revoked_by=request.user.get_username())
        return Response(status=204)


def _session_view(request: Request) -> SessionView:
    user = request.user
    return SessionView(
        user=SessionUser(username=user.get_username()) if user.is_authenticated else None,
        csrf=get_token(request._request),
    )
