"""A supervisor with real processes and quick timers, in a thread of its own, for tests."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from inference.agent.config import Settings
from inference.agent.engines.command import Command, Engine, EngineRegistry, LaunchRequest
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir
from inference.agent.workers.launcher import Launcher
from inference.agent.workers.supervisor import Supervisor
from inference.contracts.engines import Capabilities
from inference.contracts.reports import WorkerReport
from inference.contracts.specs import DeviceAssignment, NodeSpec, WorkerSpec
from inference.contracts.states import Role, WorkerDesired, WorkerPhase
from inference.process.tls import NodeTls

ROOT = Path(__file__).resolve().parents[3]
NODE = "node-under-test"
SECRET = "secret-under-test"
HOSTS = Hosts(advertised="127.0.0.1", bind="127.0.0.1")

QUICK = Settings(
    tick_s=0.05,
    probe_interval_s=0.05,
    probe_timeout_s=0.5,
    probe_failures=4,
    backoff_base_s=0.1,
    backoff_max_s=0.4,
    max_attempts=5,
    steady_s=60.0,
    start_deadline_s=60.0,
    stop_deadline_s=5.0,
)


def stub_command(request: LaunchRequest) -> Command:
    return Command(
        argv=(
            sys.executable,
            str(Path(__file__).with_name("stub_process.py")),
            "--spec",
            str(request.spec_file),
            "--announce",
            str(request.announce_file),
        ),
        env={
            "PYTHONPATH": str(ROOT),
            "TANDEM_CLUSTER_SECRET_FILE": str(request.secret_file),
            "TANDEM_WORKER_HOST": request.hosts.bind,
        },
    )


STUB_ENGINES = EngineRegistry(
    {"native": Engine(stub_command, Capabilities(switches_role=True)), "rigid": Engine(stub_command)}
)


def worker(worker_id: str, script: str = "ok", *, device: str | None = None, **changes: Any) -> WorkerSpec:
    values: dict[str, Any] = {
        "worker_id": worker_id,
        "incarnation": f"{worker_id}-1",
        "deployment": "d",
        "pool_id": "p",
        "role": Role.DECODE,
        "desired": WorkerDesired.RUN,
        "model_path": script,
        "model_name": "m",
        "devices": (DeviceAssignment(device_id=device or f"cpu-{worker_id}", kind="cpu", index=0),),
        **changes,
    }
    return WorkerSpec(**values)


class NodeUnderTest:
    """Use as a context manager: on leaving, the supervisor is closed and no process of the folder is left."""

    def __init__(
        self, folder: Path, engines: EngineRegistry = STUB_ENGINES, tls: NodeTls | None = None, **settings: Any
    ) -> None:
        self.state = StateDir(folder)
        self.state.save_secret(SECRET)
        self.settings = replace(QUICK, **settings)
        self.generation = 0
        self.seen: list[tuple[str, WorkerPhase]] = []
        self.supervisor = Supervisor(
            node_id=NODE,
            cluster_secret=SECRET,
            hosts=HOSTS,
            state=self.state,
            launcher=Launcher(self.state, engines, hosts=HOSTS, environment=os.environ),
            settings=self.settings,
            worker_tls=tls.client if tls is not None else None,
        )
        self._thread = threading.Thread(target=lambda: asyncio.run(self.supervisor.run()), daemon=True)

    def __enter__(self) -> NodeUnderTest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for process in processes_of(self.state.root):
            process.kill()
        for track in self.supervisor._tracks.values():  # those it left serving are still this process's children
            if track.process is not None and track.process._popen is not None:
                track.process._popen.wait(10)

    def close(self, within_s: float = 20.0) -> None:
        self.supervisor.close()
        self._thread.join(within_s)
        assert not self._thread.is_alive(), "the supervisor did not end"

    def want(self, *workers: WorkerSpec) -> None:
        """Submit the next generation."""
        self.generation = max(self.generation, self.supervisor.observed_generation) + 1
        assert self.supervisor.submit(NodeSpec(node_id=NODE, generation=self.generation, workers=workers))

    def report(self, worker_id: str) -> WorkerReport | None:
        return next((report for report in self.supervisor.reports() if report.worker_id == worker_id), None)

    def wait(self, worker_id: str, phase: WorkerPhase, within_s: float = 20.0) -> WorkerReport:
        """Wait until the worker is in `phase`; its report then."""

        def there() -> WorkerReport | None:
            report = self.report(worker_id)
            return report if report is not None and report.phase is phase else None

        return wait_for(there, within_s, lambda: f"{worker_id} in {phase}; reported is {self.report(worker_id)}")

    def folder(self, worker_id: str) -> Path:
        return self.state.spec_file(worker_id).parent


def wait_for(condition: Callable[[], Any], within_s: float = 20.0, what: Callable[[], str] = lambda: "it") -> Any:
    """The first true value of `condition`."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s} s in vain for {what()}")
        time.sleep(0.02)
    return value


def processes_of(folder: Path) -> list[psutil.Process]:
    """Live processes that descend from workers of an agent on `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get("TANDEM_SUPERVISED_FROM") == str(folder)
            if marked and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
