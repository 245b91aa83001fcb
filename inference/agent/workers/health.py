"""What the probes of one worker process add up to: its stage on the way to serving, and when it must be replaced."""

from __future__ import annotations

from dataclasses import dataclass

from inference.agent.config import Settings
from inference.contracts.reports import WorkerLoad
from inference.contracts.states import Role
from inference.contracts.worker import WorkerStatus


@dataclass(slots=True)
class Health:
    """Folds the answers of one process. Times are monotonic seconds.

    status: the last answer. misses: probes since then that got none. unwell: answers in a row with a stuck engine
    loop or a failure. ready_since: start of the present ready period. served: was ready at some time; None when that
    is not known yet (an adopted process before its first answer). refused: why it did not change its role as ordered.
    suspended_since: first look of several in a row at which the process was suspended.
    """

    launched: float
    status: WorkerStatus | None = None
    misses: int = 0
    last_miss: str = ""
    unwell: int = 0
    ready_since: float | None = None
    served: bool | None = False
    refused: str | None = None
    suspended_since: float | None = None

    def answered(self, status: WorkerStatus, now: float) -> None:
        self.status = status
        self.misses = 0
        well = status.failure is None and (status.healthy or not status.ready)
        self.unwell = 0 if well else self.unwell + 1
        if status.ready:
            self.served = True
            self.ready_since = now if self.ready_since is None else self.ready_since
        else:
            self.ready_since = None
            self.served = bool(self.served)

    def missed(self, why: str) -> None:
        self.misses += 1
        self.last_miss = why

    def looked_at(self, suspended: bool, now: float) -> None:
        """What the kernel tells of the process: whether it lives but is kept from running (SIGSTOP, a debugger)."""
        if not suspended:
            self.suspended_since = None
        elif self.suspended_since is None:
            self.suspended_since = now

    @property
    def trouble(self) -> str:
        """Why the last probes got no answer; empty when the last one did."""
        if self.suspended_since is not None:
            return "is suspended (SIGSTOP or a debugger): it lives but does not run"
        return f"has missed {self.misses} probes: {self.last_miss}" if self.misses else ""

    @property
    def role(self) -> Role | None:
        """What it said it is; None before its first answer."""
        return self.status.role if self.status is not None else None

    @property
    def unasked(self) -> bool:
        """Neither an answer nor a missed one yet."""
        return self.status is None and self.misses == 0

    @property
    def load(self) -> WorkerLoad | None:
        """What the worker does now; None when the last probe got no answer, because then it is not known."""
        return self.status.load if self.status is not None and self.misses == 0 else None

    @property
    def draining(self) -> bool:
        return self.status is not None and self.status.draining

    @property
    def idle(self) -> bool:
        """Draining, and by the same answer nothing is left in it. Not known is not idle."""
        load = self.load
        return self.draining and load is not None and load.running == load.waiting == load.tickets == load.handoffs == 0

    def is_steady(self, now: float, settings: Settings) -> bool:
        return self.ready_since is not None and now - self.ready_since >= settings.steady_s

    def fault(self, now: float, settings: Settings) -> str | None:
        """Why the process must be replaced; None while it may go on.

        Before the first answer of a fresh process only the start deadline counts: loading libraries takes as long as
        it takes.
        """
        if self.suspended_since is not None and now - self.suspended_since >= settings.suspended_s:
            return f"{self.trouble}, for {settings.suspended_s:g} s now"
        if not self.served and now - self.launched > settings.start_deadline_s:
            return f"was not ready within {settings.start_deadline_s:g} s"
        expected = self.status is not None or self.served is None
        if expected and self.misses >= settings.probe_failures:
            return f"did not answer {self.misses} probes in a row ({self.last_miss})"
        if self.status is not None and self.unwell >= settings.probe_failures:
            return self.status.failure or "the engine loop is stuck"
        return None
