"""People: who there is, what they may do, their passwords."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from controlplane.access import credentials, lockout
from controlplane.access.models import Account, Grant
from controlplane.access.passwords import require_good_password
from controlplane.access.principals import grants_of, role_of
from controlplane.access.sessions import sessions_end
from controlplane.audit.services import record
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.core.locking import locked
from inference.contracts.states import UserRole

log = structlog.get_logger()

ADMINS = {"is_superuser": True, "is_active": True}


def user_list() -> QuerySet[User]:
    """Everybody, by name, with what is shown of them."""
    return (
        User.objects.select_related("account", "oidc_identity")
        .prefetch_related("deployment_grants")
        .order_by("username")
    )


def user_get(username: str) -> User:
    """
    Raises:
        NotFound: nobody has this name.
    """
    return _one(user_list(), username)


@transaction.atomic
def user_create(
    *, username: str, password: str | None, role: UserRole, grants: Mapping[str, UserRole] | None = None
) -> User:
    """Add a person. password: None for somebody who comes through the identity provider only.

    Raises:
        Invalid: the name or the password can't be one.
        Conflict: somebody has this name.
    """
    user = User(username=User.normalize_username(username))
    try:
        user.clean_fields(exclude=["password"])
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="username") from error
    if password is not None:
        require_good_password(password, user)
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError as error:
        raise Conflict(f"Somebody is named {user.username!r} already.", code="name_taken", field="username") from error
    _give_role(user, role)
    _give_grants(user, grants or {})
    _record("user.create", user, after=_audited(user))
    return user


@transaction.atomic
def user_change(
    *,
    username: str,
    role: UserRole | None = None,
    grants: Mapping[str, UserRole] | None = None,
    active: bool | None = None,
) -> User:
    """Change what is given. Who is switched off is logged out everywhere, and their tokens let nobody in.

    Raises:
        NotFound: nobody has this name.
        Conflict: nobody would be left who may manage people.
    """
    admins = _admins_locked()
    user = _locked(username)
    before = _audited(user)
    if active is False or (role is not None and role is not UserRole.ADMIN):
        _require_another_admin(user, admins)
    if role is not None:
        _give_role(user, role)
    if grants is not None:
        _give_grants(user, grants)
    if active is not None and active != user.is_active:
        user.is_active = active
        user.save(update_fields=["is_active"])
    if active is False:
        sessions_end(user)
    if (after := _audited(user)) != before:
        _record("user.change", user, before=before, after=after)
    return user


@transaction.atomic
def user_delete(*, username: str) -> None:
    """Remove a person with their grants, sessions and tokens. The audit keeps their name.

    Raises:
        NotFound, Conflict: see `user_change`.
    """
    admins = _admins_locked()
    user = _locked(username)
    _require_another_admin(user, admins)
    sessions_end(user)
    _record("user.delete", user, before=_audited(user))
    user.delete()


@transaction.atomic
def password_reset(*, username: str, password: str) -> None:
    """Give somebody else a new password; they are logged out everywhere.

    Raises:
        NotFound: nobody has this name.
        Invalid: the password breaks a rule.
    """
    user = _locked(username)
    _set_password(user, password, field="password")
    _record("user.reset_password", user)


def password_change(*, user: User, current: str, new: str, address: str) -> None:
    """Change one's own password; all other sessions end with the old one.

    Raises:
        Conflict: they have none here, but come through the identity provider.
        Invalid: the current one is wrong, or the new one breaks a rule.
        TooMany: too many wrong ones lately.
    """
    if not user.has_usable_password():
        raise Conflict("You log in through the identity provider; your password is kept there.", code="no_password")
    attempt = lockout.attempt_begin(name=user.get_username(), address=address)
    if not user.check_password(current):
        raise Invalid("This is not your current password.", code="bad_credentials", field="current")
    lockout.attempt_succeeded(attempt)
    with transaction.atomic():
        _set_password(user, new, field="new")
        _record("user.change_password", user)


@transaction.atomic
def admin_ensure(*, username: str, password: str) -> bool:
    """Create an administrator unless somebody has this name already, who then stays as they are; whether it did.

    Raises:
        Invalid: the name or the password can't be one.
    """
    if User.objects.filter(username=username).exists():
        return False
    user_create(username=username, password=password, role=UserRole.ADMIN)
    return True


def role_set(user: User, role: UserRole) -> None:
    """Give `user` the role that the identity provider says. For logins, inside of their transaction.

    Raises:
        Conflict: nobody would be left who may manage people.
    """
    if role is role_of(user):
        return
    before = _audited(user)
    if role is not UserRole.ADMIN:
        _require_another_admin(user, _admins_locked())
    _give_role(user, role)
    _record("user.change", user, before=before, after=_audited(user))


def _locked(username: str) -> User:
    return _one(locked(User.objects), username)


def _one(among: QuerySet[User], username: str) -> User:
    # PostgreSQL can't look for a U+0000, and nobody is named so.
    user = None if "\0" in username else among.filter(username=username).first()
    if user is None:
        raise NotFound("user", username)
    return user


def _admins_locked() -> list[int]:
    """Keys of everybody who may manage people and log in. They are locked in one order and before anybody else: of two
    that would remove each other, one waits and is refused."""
    return list(locked(User.objects).filter(**ADMINS).order_by("pk").values_list("pk", flat=True))


def _require_another_admin(user: User, admins: list[int]) -> None:
    if admins == [user.pk]:
        raise Conflict(
            f"{user.get_username()} is the only admin; make somebody else one first.", code="last_admin", field="role"
        )


def _give_role(user: User, role: UserRole) -> None:
    """Django's own admin site goes by its flags: they follow the role."""
    account, _ = Account.objects.update_or_create(user=user, defaults={"role": role})
    user.account = account
    user.is_staff = user.is_superuser = role is UserRole.ADMIN
    user.save(update_fields=["is_staff", "is_superuser"])


def _give_grants(user: User, grants: Mapping[str, UserRole]) -> None:
    names = credentials.checked_names(list(grants), field="grants")
    roles = {name.strip(): role for name, role in grants.items()}
    user.deployment_grants.all().delete()
    Grant.objects.bulk_create([Grant(user=user, deployment=name, role=roles[name]) for name in names])


def _set_password(user: User, password: str, *, field: str) -> None:
    require_good_password(password, user, field=field)
    user.set_password(password)
    user.save(update_fields=["password"])


def _audited(user: User) -> dict[str, object]:
    return {"role": role_of(user), "grants": grants_of(user), "active": user.is_active}


def _record(action: str, user: User, *, before: object = None, after: object = None) -> None:
    name = user.get_username()
    record(action=action, target_kind="user", target_id=user.pk, target_name=name, before=before, after=after)
    log.info(action, username=name)
