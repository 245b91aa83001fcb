"""What the probes of one worker process add up to: its stage on the way to serving, and when it must be replaced."""

from __future__ import annotations

from dataclasses import dataclass

from inference.agent.config import Settings
from inference.contracts.reports import WorkerLoad
from inference.contracts.worker import WorkerStatus


@dataclass(slots=True)
class Health:
    """Folds the answers of one process. Times are monotonic seconds.

    status: the last answer. misses: probes since then that got none. unwell: answers in a row with a stuck engine
    loop or a failure. ready_since: start of the present ready period. served: was ready at some time; None when that
    is not known yet (an adopted process before its first answer).
    """

    launched: float
    status: WorkerStatus | None = None
    misses: int = 0
    last_miss: str = ""
    unwell: int = 0
    ready_since: float | None = None
    served: bool | None = False

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
        if not self.served and now - self.launched > settings.start_deadline_s:
            return f"was not ready within {settings.start_deadline_s:g} s"
        expected = self.status is not None or self.served is None
        if expected and self.misses >= settings.probe_failures:
            return f"did not answer {self.misses} probes in a row ({self.last_miss})"
        if self.status is not None and self.unwell >= settings.probe_failures:
            return self.status.failure or "the engine loop is stuck"
        return None
