"""Who is asking, and what they may do. Built by whoever authenticates a request; read by views, services and audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from inference.contracts.states import PrincipalKind, UserRole

_RANK = {role: rank for rank, role in enumerate(UserRole)}


def at_least(role: UserRole, needed: UserRole) -> bool:
    return _RANK[role] >= _RANK[needed]


def higher(*roles: UserRole) -> UserRole:
    """The one that may do most."""
    return max(roles, key=_RANK.__getitem__)


def lower(*roles: UserRole) -> UserRole:
    """The one that may do least."""
    return min(roles, key=_RANK.__getitem__)


@dataclass(frozen=True, slots=True)
class Principal:
    """name: user name, or name of the token. role: everywhere. grants: deployment name -> role there, where it is
    higher. only: where not None, the deployments that this principal may see or change at all; beside deployments it
    may only look then. address, request_id: of the request, for the audit."""

    name: str
    kind: PrincipalKind = PrincipalKind.USER
    role: UserRole = UserRole.VIEWER
    grants: Mapping[str, UserRole] = field(default_factory=dict)
    only: frozenset[str] | None = None
    address: str = ""
    request_id: str = ""

    def may(self, needed: UserRole, deployment: str | None = None) -> bool:
        """Whether it has at least the role `needed`: everywhere, or for one deployment."""
        if self.only is not None:
            if deployment is None:
                return needed is UserRole.VIEWER
            if deployment not in self.only:
                return False
        granted = self.role if deployment is None else self.grants.get(deployment, self.role)
        return at_least(higher(self.role, granted), needed)


#: For work that nobody asked for: sweeps, tasks, management commands.
SYSTEM = Principal(name="tandem", kind=PrincipalKind.SYSTEM, role=UserRole.ADMIN)

#: For requests that nobody has logged in for.
ANONYMOUS = Principal(name="anonymous", kind=PrincipalKind.ANONYMOUS)

_current: ContextVar[Principal] = ContextVar("principal", default=SYSTEM)


def current() -> Principal:
    """Who the running code works for."""
    return _current.get()


@contextmanager
def acting(principal: Principal) -> Iterator[None]:
    """Have everything inside the block work for `principal`."""
    token = _current.set(principal)
    try:
        yield
    finally:
        _current.reset(token)
