"""Workers without processes: what the agent's supervisor starts, asks and ends in a simulated node. They take no time
of their own; each only remembers when it was told what."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from inference.agent.engines.command import Command, Engine, EngineRegistry
from inference.agent.hosts import Hosts
from inference.agent.state_dir import StateDir, WorkerRecord
from inference.agent.workers.client import NoAnswer, SwitchRefused, WorkerClient
from inference.agent.workers.health import Health
from inference.agent.workers.launcher import Launcher
from inference.agent.workers.probes import Prober, Wish
from inference.agent.workers.process import Exit, WorkerProcess
from inference.contracts import engines
from inference.contracts.reports import Address, WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.worker import ProcessAnnouncement, RoleOrder, WorkerStatus
from inference.testing.simulated_state import SimulatedState

FINGERPRINT = "simulated-1"
KV_BLOCKS = 1024

_pids = itertools.count(100_000)


@dataclass(slots=True)
class Behaviour:
    """How the workers of one node behave; tests change it at any time.

    load_s: from start to ready. drain_s: how long a worker that is told to drain still has something running. busy:
    requests that a serving worker runs. stop_s: from being told to exit to being gone. start_fault: what the log of a
    worker says that dies at its start; empty for starts that work. fatal: such a death can't be mended by a restart.
    refuses_role: why workers do not change their role; empty for those that do.
    """

    load_s: float = 0.0
    drain_s: float = 0.0
    busy: int = 0
    stop_s: float = 0.0
    start_fault: str = ""
    fatal: bool = False
    refuses_role: str = ""


class SimulatedProcess(WorkerProcess):
    """A worker: a process to the launcher, a server to the prober. port: tells the workers of one node apart."""

    def __init__(self, spec: WorkerSpec, port: int, behaviour: Behaviour) -> None:
        super().__init__(next(_pids), f"simulated/{port}", None)
        self.spec = spec
        self.port = port
        self.hung = False
        self._behaviour = behaviour
        self._role = spec.role
        self._began = time.monotonic()
        self._drains_since: float | None = None
        self._gone_at: float | None = None
        self._end: Exit | None = None
        if behaviour.start_fault:
            self.die(3 if behaviour.fatal else 1)

    # -- to the launcher ---------------------------------------------------------------------------

    def poll(self) -> Exit | None:
        if self._end is None and self._gone_at is not None and time.monotonic() >= self._gone_at:
            self._end = Exit(0)
        return self._end

    @property
    def suspended(self) -> bool:
        return False

    def terminate(self) -> None:
        self._gone_at = time.monotonic() + self._behaviour.stop_s

    def kill(self) -> None:
        self.die(-9)

    def end_now(self) -> None:
        self.kill()

    def die(self, code: int = 137) -> None:
        """Be gone at once."""
        self._end = self._end or Exit(code)

    # -- to the prober -----------------------------------------------------------------------------

    @property
    def announcement(self) -> ProcessAnnouncement:
        return ProcessAnnouncement(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            pid=self.pid,
            http=Address(host="", port=self.port),
            transfer=Address(host="", port=self.port + 1),
        )

    def status(self) -> WorkerStatus:
        now = time.monotonic()
        ready = now - self._began >= self._behaviour.load_s
        running = self._running(now) if ready else 0
        return WorkerStatus(
            worker_id=self.spec.worker_id,
            incarnation=self.spec.incarnation,
            role=self._role,
            ready=ready,
            draining=self._drains_since is not None,
            healthy=True,
            failure=None,
            fatal=False,
            transfer=self.announcement.transfer,
            fingerprint=FINGERPRINT if ready else None,
            context_length=8192,
            load=WorkerLoad(
                running=running, waiting=0, waiting_tokens=0, kv_blocks_used=running, kv_blocks_total=KV_BLOCKS
            ),
        )

    def drain(self) -> None:
        self._drains_since = time.monotonic() if self._drains_since is None else self._drains_since

    def undrain(self) -> None:
        self._drains_since = None

    def switch(self, order: RoleOrder) -> WorkerStatus:
        if self._behaviour.refuses_role:
            raise SwitchRefused(self._behaviour.refuses_role)
        self._role = order.role
        return self.status()

    def _running(self, now: float) -> int:
        if self._drains_since is None:
            return self._behaviour.busy
        return max(1, self._behaviour.busy) if now - self._drains_since < self._behaviour.drain_s else 0


class SimulatedLauncher(Launcher):
    """Starts simulated workers. running: by port; they outlive a supervisor as real ones do."""

    def __init__(self, state: SimulatedState, hosts: Hosts, behaviour: Behaviour) -> None:
        engine = Engine(command=lambda _: Command(argv=()), capabilities=engines.ENGINES[engines.NATIVE])
        registry = EngineRegistry({engines.NATIVE: engine})
        super().__init__(cast(StateDir, state), registry, hosts=hosts, environment={})
        self.running: dict[int, SimulatedProcess] = {}
        self._simulated = state
        self._behaviour = behaviour
        self._ports = itertools.count(20_000, 2)

    def localised(self, spec: WorkerSpec) -> WorkerSpec:
        return spec

    def recover(self) -> list[tuple[WorkerRecord, WorkerProcess | None]]:
        processes = {process.pid: process for process in self.running.values() if process.poll() is None}
        return [(record, processes.get(record.pid or 0)) for record in self._simulated.records()]

    def _start(self, argv: tuple[str, ...], environment: Mapping[str, str], worker_id: str) -> WorkerProcess:
        spec = self._simulated.worker_specs[worker_id]
        self.running = {port: process for port, process in self.running.items() if process.poll() is None}
        process = SimulatedProcess(spec, next(self._ports), self._behaviour)
        self.running[process.port] = process
        self._simulated.announcements[worker_id] = process.announcement
        return process


class SimulatedClient:
    """Stands for `WorkerClient`: calls that are answered before they are awaited."""

    def __init__(self, launcher: SimulatedLauncher) -> None:
        self._launcher = launcher

    async def status(self, worker: Address) -> WorkerStatus:
        return self._at(worker).status()

    async def drain(self, worker: Address) -> None:
        self._at(worker).drain()

    async def undrain(self, worker: Address) -> None:
        self._at(worker).undrain()

    async def switch(self, worker: Address, order: RoleOrder, timeout_s: float) -> WorkerStatus:
        return self._at(worker).switch(order)

    def _at(self, worker: Address) -> SimulatedProcess:
        process = self._launcher.running.get(worker.port)
        if process is None or process.poll() is not None or process.hung:
            raise NoAnswer(f"nobody answers at port {worker.port}")
        return process


class InstantProber(Prober):
    """The real exchange with a worker, over within the call that begins it."""

    def __init__(self, client: SimulatedClient, on_answer: Callable[[], None], switch_s: float) -> None:
        super().__init__(cast(WorkerClient, client), on_answer, switch_s)

    def exchange(self, said: ProcessAnnouncement, worker: Address, health: Health, wish: Wish) -> bool:
        self._exchanges[said.worker_id] = cast("asyncio.Task[None]", None)  # the exchange takes itself off the list
        work = self._exchange(said, worker, health, wish)
        try:
            work.send(None)
        except StopIteration:
            return True
        raise RuntimeError("a simulated worker made its agent wait")
