"""What a worker is at the moment, and whether it may take a new request."""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.reports import Address
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role
from inference.engine.interface import Engine
from inference.worker.limits import WorkerLimits


@dataclass(slots=True)
class WorkerState:
    """ready: weights are loaded and a token was generated. switching_to: the role that it is becoming just now.
    broken: why the engine did not come up, or hung in a change of role; fatal: and a restart can't mend it."""

    spec: WorkerSpec
    engine: Engine
    limits: WorkerLimits
    ready: bool = False
    draining: bool = False
    switching_to: Role | None = None
    broken: str | None = None
    fatal: bool = False
    transfer: Address | None = None

    @property
    def failure(self) -> str | None:
        """Why this process can't serve any more, else None."""
        return self.broken or self.engine.failure

    @property
    def healthy(self) -> bool:
        """The engine's loop turns, or has not begun to."""
        return self.failure is None and (not self.ready or self.engine.heartbeat_age() < self.limits.heartbeat_s)

    def check_open(self) -> None:
        """Raises `TandemError` (NOT_READY or DRAINING) when no new request may start here."""
        if self.failure is not None:
            raise TandemError(ErrorCode.NOT_READY, f"the worker failed: {self.failure}")
        if not self.ready:
            raise TandemError(ErrorCode.NOT_READY, "the worker is still loading its model")
        if not self.healthy:
            age = self.engine.heartbeat_age()
            raise TandemError(ErrorCode.NOT_READY, f"the engine has not answered for {age:.1f} s")
        if self.switching_to is not None:
            raise TandemError(ErrorCode.NOT_READY, f"the worker is changing its role to {self.switching_to}")
        if self.draining:
            raise TandemError(ErrorCode.DRAINING, "the worker takes no new requests: it is draining")
