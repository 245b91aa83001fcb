"""What goes wrong, drawn from a seed. Each fault has an end, after which everything is there again."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psutil

from tests.chaos.world import NODES, World

_CONTROL = ("console", "control-worker", "beat", "telemetry")


@dataclass(frozen=True)
class Incident:
    """Something that clients may notice. kind: "router" or "worker"; who: a worker's id. at: monotonic."""

    at: float
    kind: str
    who: str = ""


@dataclass(frozen=True)
class Fault:
    """touches: what it works on; two faults that touch the same do not run together."""

    name: str
    touches: str
    strike: Callable[[], None]


@dataclass
class Faults:
    """Draws faults and makes them happen, at most `together` at a time."""

    world: World
    seed: int
    together: int = 2
    incidents: list[Incident] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(f"faults {self.seed}")
        self._running: dict[str, threading.Thread] = {}
        self._deck: list[Callable[[], Fault]] = []

    def storm(self, seconds: float, pause_s: tuple[float, float] = (0.5, 4.0)) -> None:
        """Let faults strike for so long; returns once each of them is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            fault = self._draw()()
            while self._in_the_way(fault):
                time.sleep(0.1)
            print(f"    {time.strftime('%H:%M:%S')} {fault.name}", flush=True)
            self.told.append(fault.name)
            thread = threading.Thread(target=self._strike, args=(fault,), name=fault.name, daemon=True)
            self._running[fault.touches] = thread
            thread.start()
            time.sleep(self._random.uniform(*pause_s))
        for thread in self._running.values():
            thread.join(120)

    def _in_the_way(self, fault: Fault) -> bool:
        self._running = {touched: thread for touched, thread in self._running.items() if thread.is_alive()}
        return fault.touches in self._running or len(self._running) >= self.together

    def _strike(self, fault: Fault) -> None:
        try:
            fault.strike()
        except Exception as error:
            self.troubles.append(f"{fault.name} could not be made: {error!r}")

    def _draw(self) -> Callable[[], Fault]:
        """Every kind once before any kind again."""
        if not self._deck:
            self._deck = [
                *(self._kill_service(name) for name in (*_CONTROL, "router")),
                self._kill_control_plane,
                self._kill_agent,
                self._kill_worker,
                self._freeze_worker,
                self._redis_restart,
                self._redis_loses_all,
                self._redis_hangs,
                self._database,
                self._freeze_agent,
                self._freeze_agent_long,
                self._partition,
                self._partition_long,
                self._full_disk,
                self._clock_of_node,
                self._clock_of_control,
            ]
            self._random.shuffle(self._deck)
        return self._deck.pop()

    # -- processes

    def _kill_service(self, name: str) -> Callable[[], Fault]:
        def kill() -> None:
            pid = self.world.keeper.kept[name].pid
            if pid is not None:
                if name == "router":
                    self.incidents.append(Incident(time.monotonic(), "router"))
                _kill(pid)

        return lambda: Fault(f"kill -9 {name}", name, kill)

    def _kill_control_plane(self) -> Fault:
        def kill() -> None:
            for name in _CONTROL:
                if (pid := self.world.keeper.kept[name].pid) is not None:
                    _kill(pid)

        return Fault("kill -9 everything of the control plane", "console", kill)

    def _kill_agent(self) -> Fault:
        node = self._random.choice(NODES)

        def kill() -> None:
            pid = self.world.keeper.kept[node].pid
            if pid is not None:
                _kill(pid)

        return Fault(f"kill -9 the agent of {node}", node, kill)

    def _kill_worker(self) -> Fault:
        return self._engine("kill -9 an engine", signal.SIGKILL)

    def _freeze_worker(self) -> Fault:
        """For good: its agent has to notice (F28)."""
        return self._engine("an engine stands still", signal.SIGSTOP)

    def _engine(self, name: str, what: signal.Signals) -> Fault:
        drawn = self._random.random()

        def strike() -> None:
            found = sorted(self.world.engine_processes(), key=lambda each: each.spec.worker_id)
            if found:
                victim = found[int(drawn * len(found))]
                self.incidents.append(Incident(time.monotonic(), "worker", victim.spec.worker_id))
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(victim.pid).send_signal(what)

        return Fault(name, "engine", strike)

    # -- servers

    def _redis_restart(self) -> Fault:
        return self._redis("is killed", self._seconds(1, 10), empty=False)

    def _redis_loses_all(self) -> Fault:
        return self._redis("loses all it holds", self._seconds(0, 5), empty=True)

    def _redis(self, how: str, seconds: float, *, empty: bool) -> Fault:
        def strike() -> None:
            self.world.redis.kill()
            time.sleep(seconds)
            self.world.redis.start(empty=empty)

        return Fault(f"Redis {how}, and is away for {seconds:.0f} s", "redis", strike)

    def _redis_hangs(self) -> Fault:
        seconds = self._seconds(2, 10)

        def strike() -> None:
            self.world.redis.freeze()
            time.sleep(seconds)
            self.world.redis.thaw()

        return Fault(f"Redis hangs for {seconds:.0f} s", "redis", strike)

    def _database(self) -> Fault:
        seconds = self._seconds(1, 8)
        postgres = self.world.postgres

        def restart() -> None:
            assert postgres is not None
            postgres.stop()
            time.sleep(seconds)
            postgres.start()

        def lock() -> None:
            with self.world.database_locked():
                time.sleep(seconds)

        if postgres is None:
            return Fault(f"the database is locked for {seconds:.0f} s", "database", lock)
        return Fault(f"the database is away for {seconds:.0f} s", "database", restart)

    # -- nodes

    def _freeze_agent(self) -> Fault:
        return self._frozen(self._seconds(1, 4))

    def _freeze_agent_long(self) -> Fault:
        return self._frozen(self._seconds(8, 15))

    def _frozen(self, seconds: float) -> Fault:
        node = self._random.choice(NODES)

        def strike() -> None:
            pid = self.world.keeper.kept[node].pid
            if pid is None:
                return
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                process.send_signal(signal.SIGSTOP)
                time.sleep(seconds)
                process.send_signal(signal.SIGCONT)

        return Fault(f"the agent of {node} stands still for {seconds:.0f} s", node, strike)

    def _partition(self) -> Fault:
        return self._cut_off(self._seconds(1, 5))

    def _partition_long(self) -> Fault:
        return self._cut_off(self._seconds(8, 20))

    def _cut_off(self, seconds: float) -> Fault:
        node = self._random.choice(NODES)
        node_id = self.world.node_ids[node]

        def strike() -> None:
            self.world.redis_gate.shut(node_id)
            self.world.control_gates[node].shut("")
            time.sleep(seconds)
            self.world.control_gates[node].open("")
            self.world.redis_gate.open(node_id)

        return Fault(f"{node} is cut off for {seconds:.0f} s", node, strike)

    def _full_disk(self) -> Fault:
        """Files of the agent, and of what it starts meanwhile, can't grow; no disk of this machine is filled."""
        node, seconds = self._random.choice(NODES), self._seconds(3, 12)

        def strike() -> None:
            with _files_can_not_grow(lambda: self.world.keeper.kept[node].pid):
                time.sleep(seconds)

        return Fault(f"the disk of {node} is full for {seconds:.0f} s", node, strike)

    # -- clocks

    def _clock_of_node(self) -> Fault:
        return self._jump(self._random.choice(NODES))

    def _clock_of_control(self) -> Fault:
        return self._jump("control")

    def _jump(self, who: str) -> Fault:
        offset = self._random.choice((-600, -60, 60, 600))
        seconds = self._seconds(4, 12)

        def strike() -> None:
            self.world.clocks.set(who, offset)
            time.sleep(seconds)
            self.world.clocks.set(who, 0)

        if not self.world.clocks.can_be_set:
            return Fault(f"(no C compiler here: the clock of {who} stays right)", "clocks", lambda: None)
        return Fault(f"the clock of {who} is {offset:+d} s off for {seconds:.0f} s", "clocks", strike)

    def _seconds(self, least: float, most: float) -> float:
        return self._random.uniform(least, most)


def _kill(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).kill()


@contextlib.contextmanager
def _files_can_not_grow(pid_now: Callable[[], int | None]) -> Iterator[None]:
    """Writing more to a file fails, for one process and its descendants."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    pid = pid_now()
    if pid is None:
        yield
        return
    _limit_files(psutil.Process(pid), (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(pid)
            for process in (leader, *leader.children(recursive=True)):
                _limit_files(process, unlimited)


def _limit_files(process: psutil.Process, limits: tuple[int, int]) -> None:
    with contextlib.suppress(psutil.Error):
        process.rlimit(psutil.RLIMIT_FSIZE, limits)
