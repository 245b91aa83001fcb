"""The whole of Tandem as `make up` starts it, on free ports and with data of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
MODEL = "smollm2-135m"


@dataclass
class Stack:
    """A running `manage.py up`. Secrets are read from the files it made."""

    data: Path
    console_port: int
    router_port: int
    redis_port: int
    process: subprocess.Popen[bytes]
    log: Path
    descendants: set[psutil.Process] = field(default_factory=set)

    @property
    def console_url(self) -> str:
        return f"http://127.0.0.1:{self.console_port}"

    @property
    def router_url(self) -> str:
        return f"http://127.0.0.1:{self.router_port}"

    @property
    def admin_password(self) -> str:
        return (self.data / "secrets" / "admin-password").read_text().strip()

    @property
    def serving_key(self) -> str:
        return (self.data / "secrets" / "serving-key").read_text().strip()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for_output(self, text: str, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while text not in self.output:
            if self.process.poll() is not None:
                raise AssertionError(f"up ended with {self.process.returncode}:\n{self.output}\n{self.logs()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"up did not say {text!r} in {deadline_s} s:\n{self.output}\n{self.logs()}")
            time.sleep(0.2)

    def logs(self) -> str:
        """The end of every process's log, for failure messages."""
        paths = [*(self.data / "logs").glob("*.log"), *(self.data / "agent").rglob("*.log")]
        tails = [
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:]) for path in paths
        ]
        return "\n".join(tails)

    def find(self, *words: str) -> list[psutil.Process]:
        """Our processes whose command line holds all `words`."""
        self.note_descendants()
        found = []
        for process in self.descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                line = " ".join(process.cmdline())
                if process.status() != psutil.STATUS_ZOMBIE and all(word in line for word in words):
                    found.append(process)
        return found

    def note_descendants(self) -> None:
        """Workers lead sessions of their own: remember everything that was ever ours, to see that nothing is left."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.descendants.update(psutil.Process(self.process.pid).children(recursive=True))
        marker = str(self.data)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if marker in " ".join(process.cmdline()):
                    self.descendants.add(process)

    def stop(self) -> list[str]:
        """Ctrl-C; returns the command lines of whatever is left of it, which should be nothing."""
        self.note_descendants()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(90)
        left = []
        for process in self.descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(process.cmdline()))
                    process.kill()
        return left


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def start_stack(data: Path, model: Path, environment: dict[str, str] | None = None) -> Stack:
    """Start `manage.py up` without waiting. `data` may be that of an earlier, stopped stack."""
    target = data / "models" / "SmolLM2-135M-Instruct"
    if not target.exists():
        target.parent.mkdir(parents=True)
        target.symlink_to(model.resolve())
    console_port, router_port, redis_port = free_ports(3)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TANDEM_", "DJANGO_"))}
    kept.pop("REDIS_URL", None)
    log = data / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={
                **kept,
                "TANDEM_DATA": str(data),
                "TANDEM_PORT": str(console_port),
                "TANDEM_ROUTER_PORT": str(router_port),
                "TANDEM_REDIS_PORT": str(redis_port),
                **(environment or {}),
            },
        )
    return Stack(data, console_port, router_port, redis_port, process, log)


@contextlib.contextmanager
def running_stack(data: Path, model: Path, environment: dict[str, str] | None = None) -> Iterator[Stack]:
    """A stack that serves; stopped at the end, with the promise that nothing is left of it."""
    stack = start_stack(data, model, environment)
    try:
        stack.wait_for_output("Tandem is serving", 300)
        yield stack
    finally:
        left = stack.stop()
    assert left == []
