"""Real worker processes and a real router, without a control plane: the bench writes the routing table itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import redis

from inference.contracts import auth, codec, names
from inference.contracts.routing import DeploymentRoute, KeyTable, RoutingTable, ServingKeyEntry, WorkerRoute
from inference.contracts.specs import DeviceAssignment, EngineSettings, WorkerSpec
from inference.contracts.states import Role, WorkerDesired
from inference.contracts.worker import ProcessAnnouncement, WorkerStatus
from inference.testing.valkey import ValkeyServer
from tests.stack import free_ports

MODEL = "bench"
SECRET = "bench-cluster-secret"
KEY = "sk-tandem-bench"
READY_S = 180.0
ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class WorkerPlan:
    """One worker of a scenario: its role, the cores it is pinned to, and its chunk size (0: whole prompts)."""

    role: Role
    cores: tuple[int, ...]
    prefill_chunk_tokens: int = 256


class BenchFleet:
    """Workers, router and Valkey of one scenario; `close` ends them all."""

    def __init__(self, directory: Path, model: Path, plans: list[WorkerPlan], kv_tokens: int) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._valkey = ValkeyServer(directory / "valkey")
        self._valkey.start()
        try:
            specs = [self._spec(number, plan, model, kv_tokens) for number, plan in enumerate(plans)]
            for spec in specs:
                self._launch(spec)
            self.statuses = {spec.worker_id: self._wait_ready(spec) for spec in specs}
            self.router_url = self._start_router(specs)
        except BaseException:
            self.close()
            raise

    def metrics(self, worker_id: str) -> str:
        """Prometheus text of one worker."""
        return self._get(self._announced(worker_id), names.METRICS)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._valkey.stop()

    def _spec(self, number: int, plan: WorkerPlan, model: Path, kv_tokens: int) -> WorkerSpec:
        return WorkerSpec(
            worker_id=f"{plan.role}-{number}",
            incarnation="bench",
            deployment=MODEL,
            pool_id=str(plan.role),
            role=plan.role,
            desired=WorkerDesired.RUN,
            model_path=str(model),
            model_name=MODEL,
            devices=(DeviceAssignment(device_id=f"cpu-{number}", kind="cpu", index=number, cores=plan.cores),),
            settings=EngineSettings(kv_tokens=kv_tokens, prefill_chunk_tokens=plan.prefill_chunk_tokens),
        )

    def _launch(self, spec: WorkerSpec) -> None:
        path = self._directory / f"{spec.worker_id}.spec.json"
        path.write_bytes(codec.encode(spec))
        announce = self._directory / f"{spec.worker_id}.json"
        self._run(
            [sys.executable, "-m", "inference.worker", "--spec", str(path), "--announce", str(announce)], spec.worker_id
        )

    def _run(self, argv: list[str], name: str, **extra: str) -> None:
        environment = {**os.environ, "TANDEM_CLUSTER_SECRET": SECRET, "TANDEM_DATA": str(self._directory), **extra}
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=ROOT)
            )

    def _announced(self, worker_id: str) -> ProcessAnnouncement:
        return codec.decode((self._directory / f"{worker_id}.json").read_bytes(), ProcessAnnouncement)

    def _get(self, announcement: ProcessAnnouncement, path: str) -> str:
        request = urllib.request.Request(
            f"http://{announcement.http.host}:{announcement.http.port}{path}",
            headers={"Authorization": auth.bearer(SECRET, auth.PURPOSE_WORKER_HTTP)},
        )
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.read().decode()

    def _wait_ready(self, spec: WorkerSpec) -> WorkerStatus:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if (self._directory / f"{spec.worker_id}.json").exists():
                try:
                    status = codec.decode(self._get(self._announced(spec.worker_id), names.WORKER_STATUS), WorkerStatus)
                except OSError:
                    status = None
                if status is not None and status.ready:
                    return status
            time.sleep(0.2)
        log = (self._directory / f"{spec.worker_id}.log").read_text(errors="replace")
        raise RuntimeError(f"{spec.worker_id} was not ready within {READY_S} s:\n{log[-2000:]}")

    def _start_router(self, specs: list[WorkerSpec]) -> str:
        client = redis.Redis.from_url(self._valkey.url)
        client.set(names.ROUTING_TABLE_KEY, codec.encode(RoutingTable(version=1, deployments=(self._route(specs),))))
        entry = ServingKeyEntry(key_id="bench", digest=auth.key_digest(KEY))
        client.set(names.KEY_TABLE_KEY, codec.encode(KeyTable(version=1, keys=(entry,))))
        client.close()
        port = free_ports(1)[0]
        argv = [sys.executable, "-m", "inference.router", "--host", "127.0.0.1", "--port", str(port)]
        self._run(argv, "router", REDIS_URL=self._valkey.url)
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{url}{names.HEALTH_READY}", timeout=2):
                    return url
            except OSError:
                time.sleep(0.1)
        raise RuntimeError((self._directory / "router.log").read_text(errors="replace")[-2000:])

    def _route(self, specs: list[WorkerSpec]) -> DeploymentRoute:
        workers = []
        for spec in specs:
            announced, status = self._announced(spec.worker_id), self.statuses[spec.worker_id]
            workers.append(
                WorkerRoute(
                    worker_id=spec.worker_id,
                    incarnation=spec.incarnation,
                    pool_id=spec.pool_id,
                    node_id="bench",
                    role=spec.role,
                    http=announced.http,
                    transfer=announced.transfer,
                    fingerprint=status.fingerprint or "",
                )
            )
        return DeploymentRoute(
            name=MODEL,
            model_name=MODEL,
            created=0,
            context_length=None,
            local_prefill_tokens=64,
            default_max_tokens=512,
            workers=tuple(workers),
        )
