"""Who keeps the account of what keys use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inference.router.admission.key_limits import Admission, KeyLimits, Quota, Refusal, Standing


class Limiter(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def enter(self, quota: Quota, prompts: int, tokens: int) -> tuple[Admission | Refusal, Standing]:
        """Let a request in or refuse it, as in `KeyLimits`; and how its key stands then."""

    def leave(self, admission: Admission) -> None:
        """The request has ended."""


class OwnLimiter:
    """One process for itself. clock: monotonic."""

    def __init__(self, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock

    async def start(self) -> None:
        """There is nobody to look for."""

    async def close(self) -> None:
        """Nor to leave."""

    async def enter(self, quota: Quota, prompts: int, tokens: int) -> tuple[Admission | Refusal, Standing]:
        now = self._clock()
        return self._limits.enter(quota, prompts, tokens, now), self._limits.standing(quota, now)

    def leave(self, admission: Admission) -> None:
        self._limits.leave(admission, self._clock())
