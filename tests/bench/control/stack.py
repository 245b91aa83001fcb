"""The control plane's processes as in production, on throw-away servers: one ASGI process, one control worker, beat,
telemetry, Valkey, and PostgreSQL or SQLite.

`environment` is to be in effect before Django's settings are read: the bench itself enters the fleet through services.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from inference.testing.valkey import ValkeyServer
from tests.postgres_server import PostgresServer
from tests.stack import free_ports

ROOT = Path(__file__).resolve().parents[3]
READY_S = 60.0
ASGI, WORKER = "ASGI (uvicorn)", "control worker (Celery)"
_CELERY = [sys.executable, "-m", "celery", "-A", "controlplane.config.celery"]


@dataclass(frozen=True, slots=True)
class Servers:
    """postgres: None on SQLite."""

    directory: Path
    valkey: ValkeyServer
    postgres: PostgresServer | None
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Everything that all processes of the control plane share."""
        return {
            "TANDEM_DATA": str(self.directory),
            "TANDEM_SECRET_KEY": "bench-secret-key",
            "TANDEM_CLUSTER_SECRET": "bench-cluster-secret",
            "TANDEM_NODE_SECRET": "bench-node-secret",
            "TANDEM_PUBLIC_URL": self.url,
            "TANDEM_API_READS_PER_MINUTE": "0",
            "TANDEM_API_WRITES_PER_MINUTE": "0",
            "TANDEM_LOG_LEVEL": "INFO",
            "REDIS_URL": self.valkey.url,
            "DATABASE_URL": self.postgres.url if self.postgres else "",
            "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.contextmanager
def servers(directory: Path, *, postgres: bool) -> Iterator[Servers]:
    """Valkey and, if asked for, PostgreSQL: both write durably, as they do in production."""
    with contextlib.ExitStack() as stack:
        valkey = stack.enter_context(ValkeyServer(directory / "valkey"))
        database = None
        if postgres:
            home = directory / "postgres"
            home.mkdir()
            # PostgreSQL refuses to run as root; the user it runs as then has to reach its folder.
            for folder in (directory, home):
                folder.chmod(0o755)
            database = PostgresServer(home, durable=True)
            stack.callback(database.stop)
            database.start()
        yield Servers(directory, valkey, database, free_ports(1)[0])


class ControlPlane:
    """Its processes, from `start` to `stop`. processes: by name, as figures are told."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        web = ("--host", "127.0.0.1", "--port", str(self._servers.port), "--lifespan", "off", "--no-access-log")
        worker = ("--queues", "control", "--pool", "threads", "--concurrency", "4", "--loglevel", "WARNING")
        schedule = str(self._servers.directory / "beat.db")
        self._run(ASGI, [sys.executable, "-m", "uvicorn", "controlplane.config.asgi:application", *web])
        self._run(WORKER, [*_CELERY, "worker", *worker, "--without-mingle", "--without-gossip"])
        self._run("beat", [*_CELERY, "beat", "--schedule", schedule, "--pidfile", ""])
        self._run("telemetry", [sys.executable, str(ROOT / "manage.py"), "telemetry"])
        self._wait()

    @property
    def processes(self) -> dict[str, list[psutil.Process]]:
        """Each with its children (PostgreSQL has one for each connection)."""
        ours = {name: process.pid for name, process in self._started.items()}
        ours["Valkey"] = self._servers.valkey.pid
        if self._servers.postgres is not None:
            ours["PostgreSQL"] = self._servers.postgres.pid
        return {name: _family(pid) for name, pid in ours.items()}

    def stop(self) -> None:
        for process in self._started.values():
            process.send_signal(signal.SIGTERM)
        for process in self._started.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _run(self, name: str, argv: list[str]) -> None:
        log = self._servers.directory / f"{name.split()[0].lower()}.log"
        with log.open("wb") as output:
            self._started[name] = subprocess.Popen(
                argv, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **self._servers.environment}, cwd=ROOT
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + READY_S
        while True:
            for name, process in self._started.items():
                if process.poll() is not None:
                    log = self._servers.directory / f"{name.split()[0].lower()}.log"
                    raise RuntimeError(f"{name} ended:\n{log.read_text(errors='replace')[-3000:]}")
            try:
                with urllib.request.urlopen(f"{self._servers.url}/healthz", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


def _family(pid: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
