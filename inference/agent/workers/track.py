"""What the agent remembers of one worker between two looks at it: its process, probes, attempts, and the story so far.

Phases are derived, never stored, so they cannot contradict the facts:

    process gone:  STOPPED if it is not wanted to run, FAILED if given up, BACKOFF until `next_start`, else STARTING
    being ended:   STOPPING; BACKOFF when it is killed because of a fault
    switching:     SWITCHING until it serves again, in the new role or, refused, in the old one
    draining:      DRAINING from the first order until it confirms that it serves again
    otherwise:     STARTING without an answer (LOADING if adopted: it may have served), LOADING until ready, READY
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from inference.agent.config import Settings
from inference.agent.state_dir import WorkerRecord
from inference.agent.workers.diff import ProcessState, ProcessView, device_ids
from inference.agent.workers.health import Health
from inference.agent.workers.probes import Wish
from inference.agent.workers.process import Exit, WorkerProcess
from inference.agent.workers.switching import Refusal, Switching
from inference.contracts.reports import Address, WorkerReport
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import Role, WorkerDesired, WorkerPhase
from inference.contracts.worker import ProcessAnnouncement

#: Characters of a cause that are kept: engines put whole tracebacks into one line.
LONGEST_REASON = 500


@dataclass(slots=True)
class Ending:
    """A process is being ended. kill_at: when it is killed. broken: for a fault of its own, not because of a wish."""

    reason: str
    kill_at: float
    broken: bool
    killed: bool = False


@dataclass(slots=True)
class Track:
    """One worker of this node. Times are monotonic seconds.

    spec: of the running process, or of the start that is to come. desired: from the newest spec. found: adopted by
    nobody yet. attempts: starts since it last served steadily. put_off: starts in a row that were not even tried.
    failed: why it is given up. told: what was last said to the process.
    """

    spec: WorkerSpec
    desired: WorkerDesired
    process: WorkerProcess | None = None
    health: Health = field(default_factory=lambda: Health(launched=0.0))
    announcement: ProcessAnnouncement | None = None
    found: bool = False
    ending: Ending | None = None
    drain_deadline: float | None = None
    switching: Switching | None = None
    refusal: Refusal | None = None
    told: Wish | None = None
    attempts: int = 0
    put_off: int = 0
    restart: int = 0
    failed: str | None = None
    next_start: float | None = None
    reason: str = ""

    @classmethod
    def recovered(cls, record: WorkerRecord, process: WorkerProcess | None, now: float) -> Track:
        """What an earlier agent recorded, with its process where that still runs."""
        return cls(
            spec=record.spec,
            desired=WorkerDesired.RUN,
            process=process,
            health=Health(launched=now),
            found=process is not None,
            attempts=record.attempts,
            restart=record.restart,
            failed=record.failed,
            refusal=record.refusal,
            reason=record.failed or ("ended while no agent watched it" if record.pid else "is to be started"),
        )

    def view(self, now: float, settings: Settings, *, switches_role: bool) -> ProcessView:
        """switches_role: what its engine can do."""
        return ProcessView(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            role=self.role,
            device_ids=device_ids(self.spec),
            state=self.state,
            served=self.health.served,
            draining=self.health.draining,
            idle=self.health.idle,
            drain_deadline=self.drain_deadline,
            fault=self.health.fault(now, settings) if self.process is not None else None,
            failed=self.failed is not None,
            next_start=self.next_start,
            restart=self.restart,
            switches_role=switches_role,
            switch_deadline=self.switching.deadline if self.switching is not None else None,
            refused_role=self.refusal.spec.role if self.refusal is not None else None,
        )

    @property
    def role(self) -> Role:
        """What the process is by its own word, else what it was started as."""
        return self.health.role or self.spec.role

    @property
    def wish(self) -> Wish:
        """What the process is to be told."""
        if self.switching is None:
            return Wish(drain=self.drain_deadline is not None)
        if self.switching.decided(self.role):
            return Wish(drain=False)
        return Wish(drain=True, become=self.switching.order)

    @property
    def state(self) -> ProcessState:
        if self.process is None:
            return ProcessState.GONE
        if self.ending is not None:
            return ProcessState.STOPPING
        return ProcessState.FOUND if self.found else ProcessState.RUNNING

    def phase(self, now: float) -> WorkerPhase:
        if self.process is None:
            return self._phase_without_process(now)
        if self.ending is not None:
            return WorkerPhase.BACKOFF if self.ending.broken else WorkerPhase.STOPPING
        if self.health.status is None:
            return WorkerPhase.LOADING if self.health.served is None else WorkerPhase.STARTING
        if self.switching is not None:
            return WorkerPhase.SWITCHING
        if self.drain_deadline is not None or self.health.draining:
            return WorkerPhase.DRAINING
        return WorkerPhase.READY if self.health.status.ready else WorkerPhase.LOADING

    def _phase_without_process(self, now: float) -> WorkerPhase:
        if self.desired is not WorkerDesired.RUN:
            return WorkerPhase.STOPPED
        if self.failed is not None:
            return WorkerPhase.FAILED
        if self.next_start is not None and now < self.next_start:
            return WorkerPhase.BACKOFF
        return WorkerPhase.STARTING

    def news(self, now: float) -> tuple[object, ...]:
        """What is worth a report as soon as it differs."""
        troubled = bool(self.health.trouble)
        return self.spec.incarnation, self.phase(now), self.role, self.attempts, self.failed, self.refusal, troubled

    def adopt(self, now: float, reason: str) -> None:
        """Take over a process of an earlier agent. Whether it has served is not known until it answers."""
        self.health = Health(launched=now, served=None)
        self.found = False
        self.reason = reason

    def launched(self, process: WorkerProcess, now: float) -> None:
        self.process = process
        self.health = Health(launched=now)
        self.announcement = None
        self.found = False
        self.ending = None
        self.drain_deadline = None
        self.switching = self.refusal = self.told = None
        self.next_start = None
        self.put_off = 0
        self.reason = "waiting for its first answer"

    def switch(self, spec: WorkerSpec, deadline: float, reason: str) -> None:
        """Have the drained process become what `spec` wants by `deadline`."""
        self.switching = Switching(spec=spec, deadline=deadline)
        self.drain_deadline = None
        self.health.refused = None
        self.reason = reason

    def hear_role(self) -> bool:
        """Take note of what the process says of its role; whether the next agent has to know something new."""
        change, status = self.switching, self.health.status
        if change is not None and self.health.refused is not None:
            change.refused, self.health.refused = self.health.refused, None
        if change is not None and status is not None and change.over(status):
            self.switching, self.refusal, self.reason = None, change.refusal, ""
        if self.role is self.spec.role:
            return change is not None and self.switching is None
        self.spec = msgspec.structs.replace(self.spec, role=self.role)
        return True

    def stop(self, reason: str, kill_at: float) -> None:
        """Tell the process to exit; `press` kills it when it has not by `kill_at`."""
        self.ending = Ending(reason, kill_at, broken=False)
        self.reason = reason
        if self.process is not None:
            self.process.terminate()

    def kill(self, reason: str, now: float) -> None:
        """End a broken process: it no longer does what it is told."""
        self.ending = Ending(reason, now, broken=True)
        self.reason = reason
        self.press(now)

    def press(self, now: float) -> None:
        """Kill a process that was told to exit and is past its deadline."""
        ending = self.ending
        if self.process is not None and ending is not None and not ending.killed and now >= ending.kill_at:
            self.process.kill()
            ending.killed = True

    def ended(self, how: Exit, last_line: str, now: float, settings: Settings) -> None:
        """The process is gone. Asked for: that is the end of it. Otherwise it is started again later, or given up."""
        ending, self.ending = self.ending, None
        status = self.health.status
        change = self.switching
        self.process = None
        self.announcement = None
        self.drain_deadline = None
        self.switching = self.refusal = None
        if ending is not None and not ending.broken:
            self.reason, self.attempts = ending.reason, 0
        else:
            told = status.failure if status is not None else None
            hopeless = how.fatal or (status is not None and told is not None and status.fatal)
            when = "" if change is None else f" while it was to become {change.spec.role}"
            cause = ending.reason if ending else f"{how}{when}: {told or last_line}".rstrip(": ")
            self.gave_out(cause, now, settings, fatal=hopeless)
        self.health = Health(launched=now)

    def gave_out(self, cause: str, now: float, settings: Settings, *, fatal: bool) -> None:
        """A start or a run has failed: back off exponentially, or give up when it is hopeless or was tried enough."""
        cause = cause[:LONGEST_REASON]
        if fatal:
            self.failed = f"{cause} (a restart can't mend this)"
        elif self.attempts >= settings.max_attempts:
            self.failed = f"{cause} (given up after {self.attempts} starts)"
        else:
            self.next_start = now + backoff(self.attempts, settings)
        self.reason = self.failed or cause

    def wait_for_room(self, cause: str, now: float, settings: Settings) -> None:
        """A start was not even tried, for lack of something that comes back by itself: so it is never given up."""
        self.put_off += 1
        self.next_start = now + backoff(self.put_off, settings)
        self.reason = f"{cause} (put off {self.put_off} times)"

    def retry(self, restart: int) -> None:
        """An operator wants another try: earlier failures no longer count."""
        self.attempts, self.put_off, self.failed, self.next_start, self.restart = 0, 0, None, None, restart

    def _reason_now(self, phase: WorkerPhase) -> str:
        if phase is WorkerPhase.LOADING and self.health.status is not None:
            return "loading the model"
        if phase is WorkerPhase.SWITCHING or phase is WorkerPhase.DRAINING:
            return self.health.trouble or self.reason
        if phase is not WorkerPhase.READY:
            return self.reason
        refused = f"could not become {self.refusal.spec.role}: {self.refusal.reason}" if self.refusal else ""
        return self.health.trouble or refused

    def report(self, now: float, advertised_host: str, log_tail: tuple[str, ...]) -> WorkerReport:
        """What others may know of it. Addresses carry this node's address and the port the process bound."""
        status = self.health.status
        phase = self.phase(now)
        told = status or self.announcement
        transfer = told.transfer if told is not None else None
        waiting = self.process is None and phase is WorkerPhase.BACKOFF and self.next_start is not None
        return WorkerReport(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            role=self.role,
            phase=phase,
            pid=self.process.pid if self.process else None,
            http=Address(host=advertised_host, port=self.announcement.http.port) if self.announcement else None,
            transfer=Address(host=advertised_host, port=transfer.port) if transfer else None,
            fingerprint=status.fingerprint if status else None,
            context_length=status.context_length if status else None,
            attempts=self.attempts,
            next_start_s=max(0.0, self.next_start - now) if waiting and self.next_start is not None else None,
            drain_left_s=max(0.0, self.drain_deadline - now) if self.drain_deadline is not None else None,
            reason=self._reason_now(phase),
            log_tail=log_tail,
            load=self.health.load,
            refused_role=self.refusal.spec.role if self.refusal is not None else None,
            revision=self.spec.revision,
            abilities=status.abilities if status else None,
        )


def backoff(attempts: int, settings: Settings) -> float:
    """Seconds until the next start after `attempts` starts: base, 2 base, 4 base, ... up to the maximum."""
    return min(settings.backoff_max_s, settings.backoff_base_s * 2.0 ** max(0, attempts - 1))
