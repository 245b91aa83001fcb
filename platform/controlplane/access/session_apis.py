"""REST: who is logged in, logging in and out, one's own password."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.models import User
from django.middleware.csrf import get_token
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.access import oidc_client, sessions, users
from controlplane.access.principals import principal_of_user
from controlplane.core.address import client_address
from controlplane.core.errors import Forbidden
from controlplane.core.principal import Principal
from controlplane.core.rest.api import answer, body
from controlplane.core.rest.authentication import SessionAuthentication
from controlplane.core.rest.schema import documented
from controlplane.core.rest.view import ControlView
from inference.contracts.bodies.access import LoginBody, PasswordBody
from inference.contracts.states import UserRole
from inference.contracts.views.access import OidcView, SessionUser, SessionView

OIDC_START = "/api/v1/session/oidc"


class SessionApi(ControlView):
    public = True
    transactional = False  # a refused login is counted

    @documented("Show the session", answers={200: SessionView}, public=True)
    def get(self, request: Request) -> Response:
        """Also sets the CSRF cookie, so this comes first."""
        return answer(_session_view(request, _by(request)))

    @documented("Log in", body=LoginBody, answers={200: SessionView}, refusals=[401, 403, 429], public=True)
    def post(self, request: Request) -> Response:
        """After too many failures, of this name or from this address, none is looked at for a while."""
        # REST framework checks CSRF only where somebody is logged in; a login must not be forged either.
        SessionAuthentication().enforce_csrf(request)
        credentials = body(request, LoginBody)
        user = sessions.session_start(
            request=request._request, username=credentials.username, password=credentials.password
        )
        request.user = user
        return answer(_session_view(request, principal_of_user(user)))

    @documented("Log out", answers={204: None}, refusals=[403], public=True)
    def delete(self, request: Request) -> Response:
        logout(request._request)
        return Response(status=204)


class OwnPasswordApi(ControlView):
    roles = {"put": UserRole.VIEWER}
    transactional = False  # a wrong password is counted

    @documented("Change own password", body=PasswordBody, answers={200: SessionView}, refusals=[403, 409, 429])
    def put(self, request: Request) -> Response:
        """This session goes on with a new CSRF token; all others of the same person end."""
        if not isinstance(request.user, User):
            raise Forbidden("A token has no password.", code="needs_a_person")
        wanted = body(request, PasswordBody)
        users.password_change(
            user=request.user,
            current=wanted.current,
            new=wanted.new,
            address=client_address(request._request),
        )
        update_session_auth_hash(request._request, request.user)
        return answer(_session_view(request, _by(request)))


def _by(request: Request) -> Principal | None:
    return request.auth if isinstance(request.auth, Principal) else None


def _session_view(request: Request, by: Principal | None) -> SessionView:
    return SessionView(
        user=None if by is None else _session_user(request, by),
        csrf=get_token(request._request),
        oidc=OidcView(name=settings.OIDC_NAME, url=OIDC_START) if oidc_client.enabled() else None,
    )


def _session_user(request: Request, by: Principal) -> SessionUser:
    return SessionUser(
        username=by.name,
        kind=by.kind,
        role=by.role,
        grants=dict(by.grants),
        only=None if by.only is None else tuple(sorted(by.only)),
        local=isinstance(request.user, User) and request.user.has_usable_password(),
    )
