"""Logins of people: how they begin and how they end."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.contrib.auth import SESSION_KEY, authenticate, login
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest

from controlplane.access import lockout
from controlplane.access.principals import principal_of_user
from controlplane.audit.services import record
from controlplane.core import clock
from controlplane.core.address import client_address
from controlplane.core.errors import Unauthenticated
from controlplane.core.principal import acting
from controlplane.core.request_id import current_request_id

log = structlog.get_logger()


def session_start(*, request: HttpRequest, username: str, password: str) -> User:
    """Log `request` in with a local password.

    Raises:
        Unauthenticated: the name or the password is wrong (which of the two is not told).
        TooMany: too many logins failed lately, for this name or from this address.
    """
    address = client_address(request)
    attempt = lockout.attempt_begin(name=username, address=address)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        log.info("login refused", username=username, address=address)
        raise Unauthenticated("The user name or the password is wrong.", code="bad_credentials")
    lockout.attempt_succeeded(attempt)
    session_open(request, user, how="password")
    return user


@transaction.atomic
def session_open(request: HttpRequest, user: User, *, how: str) -> None:
    """Log `user` in: they have proved who they are. how: "password" or "oidc", for the audit."""
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    with acting(principal_of_user(user, address=client_address(request), request_id=current_request_id())):
        record(
            action="session.start",
            target_kind="user",
            target_id=user.pk,
            target_name=user.get_username(),
            after={"how": how},
        )


def sessions_end(user: User) -> None:
    """Log `user` out everywhere. A new password does that by itself; being switched off must last when switched on."""
    key = str(user.pk)
    for session in Session.objects.filter(expire_date__gt=clock.now()).iterator():
        if session.get_decoded().get(SESSION_KEY) == key:
            session.delete()


def sessions_forget(*, now: datetime) -> None:
    """Remove sessions that have expired; for the sweep."""
    Session.objects.filter(expire_date__lt=now).delete()
