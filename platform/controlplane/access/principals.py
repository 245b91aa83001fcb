"""What a person or a token may do, as the `Principal` that everything else reads."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist

from controlplane.access.models import Account, ManagementToken
from controlplane.core.principal import Principal, higher, lower
from inference.contracts.states import PrincipalKind, UserRole


def role_of(user: User) -> UserRole:
    """The role everywhere. Who has no account row was made by Django's own commands: a superuser or nobody much."""
    try:
        account: Account = user.account
    except ObjectDoesNotExist:
        return UserRole.ADMIN if user.is_superuser else UserRole.VIEWER
    return UserRole(account.role)


def grants_of(user: User) -> dict[str, UserRole]:
    """Deployment name -> role there."""
    return {grant.deployment: UserRole(grant.role) for grant in user.deployment_grants.all()}


def highest_of(principal: Principal) -> UserRole:
    """The highest role that `principal` has anywhere."""
    return higher(principal.role, *principal.grants.values())


def principal_of_user(user: User, *, address: str = "", request_id: str = "") -> Principal:
    return Principal(
        name=user.get_username(),
        kind=PrincipalKind.USER,
        role=role_of(user),
        grants=grants_of(user),
        address=address,
        request_id=request_id,
    )


def principal_of_token(token: ManagementToken, *, address: str = "", request_id: str = "") -> Principal:
    """The rights of its owner as they are now, cut down to the token's role and deployments.

    A user name holds no space, so nobody's name is that of a token.
    """
    role = UserRole(token.role)
    everywhere = role if token.owner is None else lower(role, role_of(token.owner))
    granted = {} if token.owner is None else {name: lower(role, at) for name, at in grants_of(token.owner).items()}
    return Principal(
        name=f"token {token.name}",
        kind=PrincipalKind.TOKEN,
        role=everywhere,
        grants=granted,
        only=None if token.only is None else frozenset(token.only),
        address=address,
        request_id=request_id,
    )
