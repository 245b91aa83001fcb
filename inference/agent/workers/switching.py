"""A change of a running worker's role, as its agent remembers it.

ordered ──(its status shows the new role)──> proved ──(takes requests again)──> over, READY in the new role
   └──────(the worker refuses)──────> refused ──(takes requests again)──> over, READY in the old role
no outcome by the deadline, or the process ends: a new process in the new role
"""

from __future__ import annotations

import msgspec

from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role
from inference.contracts.worker import RoleOrder, WorkerStatus


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A worker could not become what `spec` wants; it is not asked again until another spec comes."""

    spec: WorkerSpec
    reason: str


class Switching(msgspec.Struct, kw_only=True):
    """One change under way. deadline: monotonic seconds. refused: why the worker stays what it was."""

    spec: WorkerSpec
    deadline: float
    refused: str | None = None

    @property
    def order(self) -> RoleOrder:
        return RoleOrder(role=self.spec.role, pool_id=self.spec.pool_id)

    def decided(self, role: Role) -> bool:
        """Whether a worker that is `role` has done, or refused, what was ordered."""
        return self.refused is not None or role is self.spec.role

    def over(self, status: WorkerStatus) -> bool:
        return self.decided(status.role) and not status.draining

    @property
    def refusal(self) -> Refusal | None:
        return None if self.refused is None else Refusal(spec=self.spec, reason=self.refused)
