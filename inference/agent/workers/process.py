"""One worker process: whether it lives, how it ended, and how to end it with everything it started.

A process is known by its pid and its birth, so that a reused pid is never mistaken for it. Birth is counted in clock
ticks since the kernel booted: unlike a creation time it does not move when the machine's clock is set.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

#: Exit code by which a worker says that a restart can't mend it.
FATAL_EXIT = 3


@cache
def _kernel_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def birth_of(pid: int, *, zombies: bool = False) -> str | None:
    """When the process `pid` was born, as "<kernel boot>/<ticks>"; None when there is none.

    zombies: whether one that has ended and is not reaped yet counts.
    """
    found = _look(pid)
    return None if found is None or (found.state in "ZX" and not zombies) else found.birth


class _Look(NamedTuple):
    """What the kernel tells of a process. state: a letter of proc_pid_stat(5)."""

    state: str
    birth: str


def _look(pid: int) -> _Look | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return _Look(state=fields[0], birth=f"{_kernel_boot()}/{fields[19]}")


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended. code: as subprocess gives it (negative: a signal); None when it was not our child."""

    code: int | None

    @property
    def fatal(self) -> bool:
        return self.code == FATAL_EXIT

    def __str__(self) -> str:
        if self.code is None:
            return "ended (started by an earlier agent, so its exit code is not known)"
        if self.code >= 0:
            return f"exited with code {self.code}"
        names = {number.value: number.name for number in signal.Signals}  # real-time signals have none
        return f"was ended by {names.get(-self.code, f'signal {-self.code}')}"


class WorkerProcess:
    """A process that leads its own session. `popen` is set when it is this agent's child."""

    def __init__(self, pid: int, birth: str, popen: subprocess.Popen[bytes] | None) -> None:
        self.pid = pid
        self.birth = birth
        self._popen = popen
        self._exit: Exit | None = None

    @classmethod
    def child(cls, popen: subprocess.Popen[bytes]) -> WorkerProcess:
        """The process just started. It may have ended already; not being reaped, it still has its birth."""
        birth = birth_of(popen.pid, zombies=True)
        if birth is None:
            raise OSError(f"process {popen.pid} vanished right after its start")
        return cls(popen.pid, birth, popen)

    @classmethod
    def adopted(cls, pid: int | None, birth: str | None) -> WorkerProcess | None:
        """The running process that a record names, or None when it is gone or its pid now belongs to another."""
        if pid is None or birth is None or birth_of(pid) != birth:
            return None
        return cls(pid, birth, None)

    def poll(self) -> Exit | None:
        """How it ended, or None while it runs. What it started and left behind is killed before it is reaped: as long
        as the zombie holds the number, the group can't be another one's."""
        if self._exit is not None:
            return self._exit
        if self._popen is None:
            if birth_of(self.pid) == self.birth:
                return None
            if not Path(f"/proc/{self.pid}").exists():
                kill_group(self.pid)
            self._exit = Exit(None)
        else:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            kill_group(self.pid)
            self._exit = Exit(self._popen.wait())
        return self._exit

    @property
    def suspended(self) -> bool:
        """Whether it lives but is kept from running, by SIGSTOP or a debugger."""
        found = _look(self.pid)
        return found is not None and found.birth == self.birth and found.state in "Tt"

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def end_now(self) -> None:
        """Kill it and wait until it is reaped (only a child can be waited for)."""
        self.kill()
        if self._popen is not None:
            self._popen.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            _signal_group(self.pid, number)


def kill_group(pgid: int) -> None:
    _signal_group(pgid, signal.SIGKILL)


def _signal_group(pgid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pgid, number)
