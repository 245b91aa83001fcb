"""People who come through the identity provider: made at their first login, with the role of their groups.

Where groups are mapped to roles the provider decides at each login; else the first role is the settings' and admins
change it here. Nobody gets a local account because a name is the same: names are given out by two parties.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from controlplane.access import users
from controlplane.access.models import OidcIdentity
from controlplane.access.oidc_client import LoginProblem, Person, Problem
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.locking import locked
from controlplane.core.principal import higher
from inference.contracts.states import UserRole

log = structlog.get_logger()


def user_of(person: Person) -> User:
    """The user that `person` is here.

    Raises:
        LoginProblem: they may not come in.
    """
    try:
        with transaction.atomic():
            return _found_or_made(person)
    except (Conflict, IntegrityError) as error:
        log.warning("login refused: the user name is taken", username=person.name, error=str(error))
        raise LoginProblem(Problem.NAME_TAKEN) from error
    except Invalid as error:
        log.warning("login refused: no user can be named so", username=person.name, error=str(error))
        raise LoginProblem(Problem.REFUSED) from error


def _found_or_made(person: Person) -> User:
    role = role_from(person.groups)
    # Not the user: admins are locked before anybody else.
    identities = locked(OidcIdentity.objects.select_related("user"), of=["self"])
    identity = identities.filter(issuer=person.issuer, subject=person.subject).first()
    if role is None or (identity is not None and not identity.user.is_active):
        log.warning("login refused: no access", username=person.name)
        raise LoginProblem(Problem.NO_ACCESS)
    if identity is None:
        user = users.user_create(username=person.name, password=None, role=role)
        OidcIdentity.objects.create(user=user, issuer=person.issuer, subject=person.subject)
        return user
    if settings.OIDC_ROLES:
        _follow(identity.user, role)
    return identity.user


def role_from(groups: Collection[str] | None) -> UserRole | None:
    """The highest role of `groups`; the settings' default where none of them has one; None: no access."""
    mapped = [UserRole(settings.OIDC_ROLES[group]) for group in groups or () if group in settings.OIDC_ROLES]
    if mapped:
        return higher(*mapped)
    return None if settings.OIDC_DEFAULT_ROLE == "none" else UserRole(settings.OIDC_DEFAULT_ROLE)


def _follow(user: User, role: UserRole) -> None:
    try:
        users.role_set(user, role)
    except Conflict as error:
        log.error("role not changed by the identity provider", username=user.get_username(), error=error.message)
