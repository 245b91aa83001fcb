"""A whole Tandem to be broken: the real control plane, router and agents, with stubs for engines, on one machine.

The control plane's processes are those that `manage.py up` starts, by the same command lines. Each node reaches Redis
and the control plane through a gate that can be shut for it alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from controlplane.launch.layout import Layout
from controlplane.launch.services import tandem_services
from inference.contracts.codec import decode, encode
from inference.contracts.specs import WorkerSpec
from inference.testing.stub_settings import StubSettings
from inference.testing.valkey import ValkeyServer
from tests.chaos.api import Api, Away
from tests.chaos.clocks import Clocks
from tests.chaos.gate import Gate
from tests.chaos.processes import Keeper
from tests.postgres_server import PostgresServer, postgres_server
from tests.stack import free_ports

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = "chaos"
NODES = ("alder", "birch", "cedar")
SLOTS = 3
LOST_AFTER_S = 6
#: Two models of unlike fingerprints that give the same answers, to roll out from one to the other.
MODELS = ("stub-one", "stub-two")

#: Everything that waits, waits for seconds here.
_TIMERS = {
    "TANDEM_REPORT_INTERVAL_S": "0.5",
    "TANDEM_NODE_LOST_AFTER_S": str(LOST_AFTER_S),
    "TANDEM_SWEEP_INTERVAL_S": "1.5",
    "TANDEM_MEASURES_INTERVAL_S": "2",
    "TANDEM_DRAIN_DEADLINE_S": "90",
    "TANDEM_OPERATION_DEADLINE_S": "150",
    "TANDEM_API_WRITES_PER_MINUTE": "0",
    "TANDEM_API_READS_PER_MINUTE": "0",
    "TANDEM_LOG_JSON": "1",
    "TANDEM_AGENT_WATCHDOG_S": "8",
    "TANDEM_AGENT_BACKOFF_BASE_S": "0.5",
    "TANDEM_AGENT_BACKOFF_MAX_S": "4",
    "TANDEM_AGENT_MAX_ATTEMPTS": "100",
    "TANDEM_AGENT_STEADY_S": "5",
    "TANDEM_AGENT_DISK_FLOOR_BYTES": "1",
    "TANDEM_CPU_SLOTS": str(SLOTS),
    "TANDEM_WORKER_LIMITS": '{"lease_s": 5, "failure_linger_s": 0.5}',
}


@dataclass(frozen=True)
class EngineProcess:
    """A living engine process, as the machine shows it. spec: what it was started from."""

    pid: int
    born: float
    node: str
    spec: WorkerSpec


@dataclass
class World:
    data: Path
    redis: ValkeyServer
    postgres: PostgresServer | None
    keeper: Keeper
    clocks: Clocks
    redis_gate: Gate
    api: Api
    router_url: str
    serving_key: str
    cluster_secret: str
    control_gates: dict[str, Gate] = field(default_factory=dict)
    node_ids: dict[str, str] = field(default_factory=dict)
    _specs: dict[tuple[int, float], WorkerSpec] = field(default_factory=dict)

    def log(self, name: str) -> str:
        path = self.data / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def engine_processes(self) -> list[EngineProcess]:
        """Every process on this machine that was started as an engine of one of our nodes, whoever knows of it."""
        return [found for pid in psutil.pids() if (found := self._engine_process(pid)) is not None]

    def _engine_process(self, pid: int) -> EngineProcess | None:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--spec" not in words:
                return None
            path = Path(words[words.index(b"--spec") + 1].decode())
            if self.data not in path.parents:
                return None
            process = psutil.Process(pid)
            born = process.create_time()
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            if (pid, born) not in self._specs:
                self._specs[pid, born] = decode(path.read_bytes(), WorkerSpec)
            return EngineProcess(pid, born, path.relative_to(self.data / "nodes").parts[0], self._specs[pid, born])
        except (OSError, psutil.Error, IndexError):
            return None

    @contextlib.contextmanager
    def database_locked(self) -> Iterator[None]:
        """SQLite: another process holds the write lock."""
        connection = sqlite3.connect(self.data / "tandem.sqlite3", timeout=30, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")
        finally:
            connection.close()


@contextlib.contextmanager
def running_world(data: Path, *, database: str) -> Iterator[World]:
    """data: an empty folder. database: "sqlite" or "postgres". Nothing runs any more at the end, whatever happened."""
    with contextlib.ExitStack() as stack:
        for folder in ("logs", "nodes", "secrets"):
            (data / folder).mkdir()
        postgres = stack.enter_context(postgres_server()) if database == "postgres" else None
        redis = stack.enter_context(ValkeyServer(data / "redis"))
        keeper = Keeper()
        stack.callback(_kill_engines, data)
        stack.callback(keeper.close)
        yield _start(data, redis, postgres, keeper)


def _start(data: Path, redis: ValkeyServer, postgres: PostgresServer | None, keeper: Keeper) -> World:
    console, router = free_ports(2)
    layout = Layout(ROOT, data, "127.0.0.1", console, router, redis.port, own_redis=False)
    redis_gate = Gate(("127.0.0.1", redis.port))
    environment = _environment(layout, redis, redis_gate, postgres)
    _fill(data, environment)
    clocks = Clocks(data / "clocks")
    keep_clock = clocks.environment("control")
    for service in tandem_services(layout, None):
        if service.name != "agent":
            shared = {} if service.name == "router" else keep_clock
            log = data / "logs" / f"{service.name}.log"
            keeper.start(service.name, service.argv, {**environment, **shared, **service.environment}, log)
    world = World(
        data=data,
        redis=redis,
        postgres=postgres,
        keeper=keeper,
        clocks=clocks,
        redis_gate=redis_gate,
        api=Api(layout.console_url, (data / "secrets" / "token").read_text().strip()),
        router_url=layout.router_url,
        serving_key=(data / "secrets" / "key").read_text().strip(),
        cluster_secret=(data / "secrets" / "cluster").read_text(),
    )
    _wait(lambda: world.api.get("/nodes"), 60)
    for name in NODES:
        _start_node(world, name, console, environment)
    _wait(lambda: len([node for node in world.api.items("/nodes") if node["phase"] == "ready"]) == len(NODES), 60)
    world.node_ids.update({node["name"]: node["id"] for node in world.api.items("/nodes")})
    return world


def _environment(layout: Layout, redis: ValkeyServer, gate: Gate, postgres: PostgresServer | None) -> dict[str, str]:
    data = layout.data
    for name in ("django", "cluster", "nodes"):
        (data / "secrets" / name).write_text(secrets.token_hex(32))
    ours = ("TANDEM_", "DJANGO_", "REDIS_URL", "DATABASE_URL")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
        **_TIMERS,
        "TANDEM_DATA": str(data),
        "TANDEM_CLUSTER_SECRET_FILE": str(data / "secrets" / "cluster"),
        "TANDEM_PUBLIC_URL": layout.console_url,
        "TANDEM_ROUTER_URL": layout.router_url,
        "REDIS_URL": redis.url,
        "TANDEM_NODE_REDIS_URL": f"redis://127.0.0.1:{gate.port}/0",
        "DATABASE_URL": postgres.url if postgres is not None else "",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]),
        "PYTHONUNBUFFERED": "1",
    }


def _fill(data: Path, environment: dict[str, str]) -> None:
    """Migrations, a management token, a serving key and two models, in one process: each start of Django takes long."""
    models = []
    for name in MODELS:
        settings = StubSettings(
            prefill_s_per_token=0.0003,
            decode_s_per_token=0.03,
            kv_blocks=2048,
            context_length=4096,
            load_s=0.5,
            fingerprint=name,
        )
        path = data / f"{name}.json"
        path.write_bytes(encode(settings))
        models.append(("ensure_model", {"name": name, "path": str(path)}))
    calls = [
        ("migrate", {"verbosity": 0}),
        ("create_token", {"name": "chaos", "role": "admin", "out": str(data / "secrets" / "token")}),
        ("ensure_key", {"name": "chaos", "out": str(data / "secrets" / "key")}),
        *models,
    ]
    lines = [
        "import django",
        "from pathlib import Path",
        "django.setup()",
        "from django.core.management import call_command",
        f"for command, options in {calls!r}:",
        "    options = {name: Path(value) if name == 'out' else value for name, value in options.items()}",
        "    call_command(command, **options)",
    ]
    subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, check=True, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _start_node(world: World, name: str, console: int, environment: dict[str, str]) -> None:
    gate = world.control_gates[name] = Gate(("127.0.0.1", console))
    token = world.api.write("POST", "/join-tokens", {"note": name}).body["token"]
    own = {key: value for key, value in environment.items() if key not in ("REDIS_URL", "DATABASE_URL")}
    world.keeper.start(
        name,
        [
            *(sys.executable, "-m", "inference.testing.stub_agent", "run"),
            *("--url", f"http://127.0.0.1:{gate.port}", "--data", str(world.data / "nodes" / name), "--name", name),
        ],
        {**own, **world.clocks.environment(name), "TANDEM_JOIN_TOKEN": token},
        world.data / "logs" / f"{name}.log",
    )


def _wait(look: Any, deadline_s: float) -> None:
    deadline = time.monotonic() + deadline_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            if last := look():
                return
        except (Away, LookupError) as error:
            last = error
        time.sleep(0.3)
    raise AssertionError(f"the world did not come up in {deadline_s:g} s: {last!r}")


def _kill_engines(data: Path) -> None:
    """Whatever still runs from a file of ours: agents that were killed leave their engines."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(f"{data}/") for word in process.cmdline()):
                process.kill()
