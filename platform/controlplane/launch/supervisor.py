"""Keeps the processes of a one-machine Tandem running: start in order, restart with back-off, stop in reverse.

Each process leads a session of its own, so the terminal's Ctrl-C reaches only the supervisor, which then stops the
others one by one. Pids are written down with their start time: should the supervisor itself be killed, the next
start finds what it left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from controlplane.launch.services import Service

POLL_S = 0.25
BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S = 60.0


class StartFailed(Exception):
    """A process ended, or did not become ready in time; the text holds its last log lines."""


@dataclass(slots=True)
class Running:
    service: Service
    process: subprocess.Popen[bytes]
    started: float
    failures: int = 0
    restart_at: float | None = None


class Supervisor:
    """Owns the processes. Not thread-safe: one thread starts, watches and stops."""

    def __init__(
        self,
        *,
        logs: Path,
        record: Path,
        say: Callable[[str], None],
        uninterrupted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """record: file of pids. uninterrupted: keeps signals back while a process is started and written down."""
        self._logs = logs
        self._record = record
        self._say = say
        self._uninterrupted = uninterrupted
        self._running: list[Running] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, service: Service) -> None:
        """Launch `service` without waiting for it."""
        with self._uninterrupted():
            self._running.append(Running(service, self._launch(service), time.monotonic()))
            self._write_record()

    def wait_ready(self, service: Service, deadline_s: float) -> None:
        """Raises `StartFailed` when the process ends or is not ready within `deadline_s`."""
        running = next(each for each in self._running if each.service is service)
        deadline = time.monotonic() + deadline_s
        while not service.is_ready():
            if running.process.poll() is not None:
                raise StartFailed(f"{service.name} ended with {running.process.returncode}:\n{self.log_tail(service)}")
            if time.monotonic() > deadline:
                raise StartFailed(f"{service.name} was not ready within {deadline_s:.0f} s:\n{self.log_tail(service)}")
            time.sleep(POLL_S)

    def watch(self) -> None:
        """One look at every process; restarts what has ended, later and later if it keeps ending."""
        now = time.monotonic()
        for running in self._running:
            if running.restart_at is not None:
                if now >= running.restart_at:
                    self._restart(running, now)
            elif (code := running.process.poll()) is not None:
                if now - running.started > STEADY_S:
                    running.failures = 0
                pause = BACKOFF_S[min(running.failures, len(BACKOFF_S) - 1)]
                running.failures += 1
                running.restart_at = now + pause
                self._say(f"{running.service.name} ended with {code}; starting it again in {pause:.0f} s")
                self._say(self.log_tail(running.service, lines=5))

    def stop(self) -> None:
        """Stop everything in reverse order; nothing is left when this returns. Idempotent."""
        while self._running:
            running = self._running.pop()
            stop_group(running.process, running.service.stop_s)
        self._record.unlink(missing_ok=True)

    def log_tail(self, service: Service, lines: int = 15) -> str:
        path = self._logs / f"{service.name}.log"
        content = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join(f"    {line}" for line in content[-lines:])

    def _launch(self, service: Service) -> subprocess.Popen[bytes]:
        with fresh_log(self._logs / f"{service.name}.log") as log:
            return subprocess.Popen(
                service.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **service.environment},
            )

    def _restart(self, running: Running, now: float) -> None:
        with self._uninterrupted():
            running.process = self._launch(running.service)
            running.started = now
            running.restart_at = None
            self._write_record()

    def _write_record(self) -> None:
        entries = []
        for running in self._running:
            try:
                entries.append([running.process.pid, psutil.Process(running.process.pid).create_time()])
            except psutil.NoSuchProcess:
                continue
        self._record.write_text(json.dumps(entries))


def fresh_log(path: Path) -> BinaryIO:
    """An empty log at `path`; the one of the run before is kept beside it as `<name>.log.1`."""
    if path.exists():
        path.replace(path.with_suffix(".log.1"))
    return path.open("wb")


def stop_group(process: subprocess.Popen[bytes], deadline_s: float) -> None:
    """SIGTERM, wait, then SIGKILL for the whole process group; reaps the process."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(deadline_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stop_leftovers(record: Path, deadline_s: float = 20.0) -> int:
    """Stop what a killed supervisor left running (same pid and same start time). Returns how many there were."""
    if not record.exists():
        return 0
    try:
        entries = json.loads(record.read_text())
    except ValueError:
        entries = []
    found = []
    for pid, created in reversed(entries):
        try:
            process = psutil.Process(pid)
            if abs(process.create_time() - created) < 0.01:
                process.terminate()
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(found, timeout=deadline_s)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=5)
    record.unlink(missing_ok=True)
    return len(found)
