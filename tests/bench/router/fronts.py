"""What is measured: Tandem's router and vllm-router, each a process on a core of its own, in front of the stubs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import redis

from inference.contracts import auth, codec, names
from inference.contracts.reports import Address
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable, ServingKeyEntry, WorkerRoute
from inference.contracts.states import Role
from inference.testing.valkey import ValkeyServer
from tests.bench.machine import ROOT
from tests.bench.peers.environments import VLLM_ROUTER
from tests.bench.router.answers import PACES
from tests.bench.router.load import chat_request
from tests.bench.router.stub_tandem import FINGERPRINT, TRANSFER
from tests.stack import free_ports

SECRET, KEY = "bench-cluster-secret", "sk-tandem-bench"
#: The router's core, and that of everything else.
ROUTERS_CORE, OTHERS_CORE = 0, 1
WORKERS = 4
TANDEM = "Tandem"
_READY_S = 60.0

#: Policies of vllm-router: what it does unless told otherwise, which lays prompts out and compares their beginnings,
#: and the one that does the least.
DEFAULT, CHEAPEST = "cache_aware", "round_robin"


@dataclass
class Front:
    """A running router. name: as the table says it. ports: the workers' by role, for requests sent straight to them."""

    name: str
    port: int
    process: psutil.Process
    log: Path
    ports: Mapping[str, list[int]] = field(default_factory=dict)

    def request(self, model: str, number: int) -> bytes:
        return chat_request(self.port, model, number, KEY)

    def cpu_s(self) -> float:
        """Processor time that it used so far, of all its threads; by the scheduler's own account, which counts in
        nanoseconds where psutil counts in hundredths of a second."""
        return self._scheduled(0)

    def waited_s(self) -> float:
        """Time that its threads would have run so far, and others had the core."""
        return self._scheduled(1)

    def _scheduled(self, column: int) -> float:
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[column]) for thread in threads) / 1e9

    def rss_mib(self) -> float:
        return float(self.process.memory_info().rss) / 2**20


@contextlib.contextmanager
def stub_workers() -> Iterator[dict[str, list[int]]]:
    """Ports of the workers by kind."""
    argv = [sys.executable, "-m", "tests.bench.router.stubs", str(WORKERS)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    os.sched_setaffinity(process.pid, {OTHERS_CORE})
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


@contextlib.contextmanager
def tandem(directory: Path, ports: Mapping[str, list[int]], **settings: str) -> Iterator[Front]:
    """Tandem's router as it is delivered: everything is counted and timed, the key has every kind of limit (so high
    that none is reached), and every prompt is handed over."""
    directory.mkdir()
    valkey = ValkeyServer(directory / "valkey")
    valkey.start()
    try:
        os.sched_setaffinity(valkey.pid, {OTHERS_CORE})
        with redis.Redis.from_url(valkey.url) as client:
            client.set(names.ROUTING_TABLE_KEY, codec.encode(RoutingTable(version=1, deployments=_routes(ports))))
            client.set(names.KEY_TABLE_KEY, codec.encode(KeyTable(version=1, keys=(_key(),))))
        (port,) = free_ports(1)
        argv = [sys.executable, "-m", "inference.router", "--host", "127.0.0.1", "--port", str(port)]
        environment = {
            "REDIS_URL": valkey.url, "TANDEM_CLUSTER_SECRET": SECRET, "TANDEM_DATA": str(directory), **settings
        }  # fmt: skip
        with _running(TANDEM, argv, port, names.HEALTH_READY, directory / "router.log", environment) as front:
            front.ports = ports
            yield front
    finally:
        valkey.stop()


@contextlib.contextmanager
def vllm_router(directory: Path, ports: Mapping[str, list[int]], policy: str) -> Iterator[Front]:
    """vllm-router in its P/D mode."""
    directory.mkdir()
    port, metrics_port = free_ports(2)
    servers = [f"http://127.0.0.1:{each}" for each in ports["vllm"]]
    argv = [str(VLLM_ROUTER.python.with_name("vllm-router")), "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--vllm-pd-disaggregation", "--kv-connector", "nixl", "--policy", policy]
    argv += ["--prometheus-port", str(metrics_port), "--worker-startup-check-interval", "1"]
    for number, server in enumerate(servers):
        argv += ["--prefill" if number < len(servers) // 2 else "--decode", server]
    with _running(f"vllm-router, {policy}", argv, port, "/health", directory / "router.log", {}) as front:
        front.ports = ports
        yield front


@contextlib.contextmanager
def _running(
    name: str, argv: list[str], port: int, ready: str, log: Path, environment: Mapping[str, str]
) -> Iterator[Front]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **environment},
            preexec_fn=lambda: os.sched_setaffinity(0, {ROUTERS_CORE}),
        )  # fmt: skip
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}{ready}", process, log)
        yield Front(name, port, psutil.Process(process.pid), log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer within {_READY_S:g} s:\n{log.read_text(errors='replace')[-2000:]}")


def _routes(ports: Mapping[str, list[int]]) -> tuple[DeploymentRoute, ...]:
    workers = tuple(
        WorkerRoute(
            worker_id=f"{role}-{number}",
            incarnation="bench",
            pool_id=role,
            node_id="bench",
            role=Role(role),
            http=Address(host="127.0.0.1", port=port),
            transfer=TRANSFER if role == Role.DECODE else None,
            fingerprint=FINGERPRINT,
        )
        for role in (Role.PREFILL.value, Role.DECODE.value)
        for number, port in enumerate(ports[role])
    )
    return tuple(
        DeploymentRoute(
            name=model,
            model_name=model,
            created=0,
            context_length=4096,
            local_prefill_tokens=0,
            default_max_tokens=512,
            workers=workers,
        )
        for model in PACES
    )


def _key() -> ServingKeyEntry:
    return ServingKeyEntry(
        key_id="bench", digest=auth.key_digest(KEY), models=tuple(PACES), expires_at=time.time() + 86400,
        requests_per_minute=10_000_000, max_concurrent=100_000,
    )  # fmt: skip
