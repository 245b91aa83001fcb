"""What an agent does to one worker: looks at its process, starts, stops, drains, switches it. No step here waits."""

from __future__ import annotations

import structlog

from inference.agent.config import Settings
from inference.agent.state_dir import StateDir
from inference.agent.weights.store import NotHere
from inference.agent.workers import logs
from inference.agent.workers.diff import Action, ActionKind, changes
from inference.agent.workers.launcher import Launcher, LaunchFailed
from inference.agent.workers.room import NoRoom, Room
from inference.agent.workers.track import Track
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import WorkerPhase

log = structlog.get_logger()


class WorkerActs:
    """Each call is about one track; the caller keeps them apart and in order."""

    def __init__(self, *, state: StateDir, launcher: Launcher, room: Room, settings: Settings) -> None:
        self._state = state
        self._launcher = launcher
        self._room = room
        self._settings = settings

    def observe(self, track: Track, now: float) -> None:
        """Look at one process: has it ended, is it past a deadline, does it run, has it said what it is."""
        if track.process is None:
            return
        log_file = self._state.log_file(track.spec.worker_id)
        logs.rotate(log_file, self._settings.log_limit_bytes)
        track.press(now)
        how = track.process.poll()
        if how is not None:
            track.ended(how, (logs.tail(log_file) or ("",))[-1], now, self._settings)
            self._launcher.record_end(track.spec, track.attempts, track.restart, track.failed)
            log.info("worker is gone", worker_id=track.spec.worker_id, how=str(how), reason=track.reason)
            return
        track.health.looked_at(track.process.suspended, now)
        if track.announcement is None:
            track.announcement = self._state.announcement(track.spec, track.process.pid)
        if track.health.is_steady(now, self._settings):
            track.attempts = 1
        if track.hear_role():
            log.info("worker's role", worker_id=track.spec.worker_id, role=track.role, refusal=track.refusal)
            self._launcher.record_role(track.spec, track.refusal)

    def apply(self, action: Action, track: Track, spec: WorkerSpec | None, now: float) -> None:
        """Do what `diff` found to be done. spec: what is wanted of the worker; None when it is not listed."""
        if changes((action,)) and action.kind not in (ActionKind.DRAIN, ActionKind.UNDRAIN):
            log.info("worker", action=action.kind.value, worker_id=action.worker_id, reason=action.reason)
        match action.kind, spec:
            case ActionKind.START, WorkerSpec():
                self._start(track, spec, now)
            case ActionKind.STOP, _:
                track.stop(action.reason, kill_at=now + self._settings.stop_deadline_s)
            case ActionKind.KILL, _:
                track.kill(action.reason, now)
            case ActionKind.ADOPT, _:
                track.adopt(now, action.reason)
            case ActionKind.DRAIN, WorkerSpec() if track.drain_deadline is None:
                track.drain_deadline = now + spec.drain_deadline_s
                track.reason = action.reason
            case ActionKind.UNDRAIN, _ if track.drain_deadline is not None:
                track.drain_deadline = None
                track.reason = action.reason
            case ActionKind.SWITCH, WorkerSpec():
                track.switch(spec, now + self._settings.switch_deadline_s, action.reason)
            case ActionKind.WAIT, _ if track.phase(now) is not WorkerPhase.BACKOFF:
                track.reason = action.reason

    def _start(self, track: Track, spec: WorkerSpec, now: float) -> None:
        if spec.restart > track.restart:
            track.retry(spec.restart)
        track.spec = spec
        try:
            self._room.check(self._launcher.localised(spec))
        except (NoRoom, NotHere) as error:
            log.warning("worker's start is put off", worker_id=spec.worker_id, reason=str(error))
            track.wait_for_room(str(error), now, self._settings)
            return
        track.attempts += 1
        try:
            process = self._launcher.launch(spec, track.attempts)
        except LaunchFailed as error:
            log.warning("worker could not be started", worker_id=spec.worker_id, error=str(error))
            track.gave_out(str(error), now, self._settings, fatal=error.fatal)
            self._launcher.record_end(spec, track.attempts, track.restart, track.failed)
            return
        track.launched(process, now)
        log.info("worker is launched", worker_id=spec.worker_id, pid=process.pid, attempt=track.attempts)
