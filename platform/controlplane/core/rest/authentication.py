"""Session login with CSRF. A module of its own: Django REST framework imports it while its views are being loaded."""

from __future__ import annotations

from rest_framework import authentication, exceptions
from rest_framework.request import Request


class SessionAuthentication(authentication.SessionAuthentication):
    """Answers 401 instead of 403 when nobody is logged in, and says what to do about a missing CSRF token."""

    def authenticate_header(self, request: Request) -> str:
        return "Session"

    def enforce_csrf(self, request: Request) -> None:
        try:
            super().enforce_csrf(request)
        except exceptions.PermissionDenied as error:
            raise exceptions.PermissionDenied(
                "The CSRF token is missing or wrong: get /api/v1/session and send its csrf value as X-CSRFToken.",
                code="csrf_failed",
            ) from error
