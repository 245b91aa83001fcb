"""A whole agent in a process of its own, with a real broker, as a control plane sees it."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from inference.agent.state_dir import Membership, StateDir
from inference.contracts.codec import decode, encode_text
from inference.contracts.names import CONTROL_QUEUE, TASK_APPLY_NODE_SPEC, TASK_RECORD_NODE_REPORT, node_queue
from inference.contracts.reports import NodeReport, NodeWelcome, WorkerReport
from inference.contracts.specs import NodeSpec, WorkerSpec
from inference.contracts.states import WorkerPhase
from inference.testing.valkey import ValkeyServer
from tests.inference.agent.node_under_test import NODE, ROOT, SECRET, processes_of, wait_for

QUICK_ENVIRONMENT = {
    "TANDEM_AGENT_TICK_S": "0.05",
    "TANDEM_AGENT_PROBE_INTERVAL_S": "0.05",
    "TANDEM_AGENT_REPORT_INTERVAL_S": "0.3",
    "TANDEM_AGENT_WINDOW_INTERVAL_S": "0.2",
    "TANDEM_AGENT_BACKOFF_BASE_S": "0.2",
    "TANDEM_AGENT_STOP_DEADLINE_S": "5",
    "TANDEM_AGENT_REDIS_TIMEOUT_S": "1",
    "TANDEM_AGENT_DEVICES": "cpu",
}


class AgentUnderTest:
    """Use as a context manager: on leaving, neither the agent nor any process of its folder is left."""

    def __init__(self, folder: Path, broker: ValkeyServer, **environment: str) -> None:
        self.state = StateDir(folder / "agent")
        self.broker = broker
        self.log = folder / "agent.log"
        self._environment = {**QUICK_ENVIRONMENT, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._generation = 0
        self._app = Celery(broker=broker.url, set_as_current=False, fixups=[])
        self._redis = redis.Redis.from_url(broker.url)
        welcome = NodeWelcome(
            node_id=NODE, name="node", redis_url=broker.url, cluster_secret=SECRET, report_interval_s=2.0
        )
        self.state.save_membership(Membership(url="http://127.0.0.1:1", address="127.0.0.1", welcome=welcome))

    def __enter__(self) -> AgentUnderTest:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for process in processes_of(self.state.root):
            process.kill()
        self._app.close()
        self._redis.close()

    def start(self) -> None:
        inherited = {name: value for name, value in os.environ.items() if name != "REDIS_URL"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.inference.agent.agent_process", "run", "--data", str(self.state.root)],
                cwd=ROOT,
                env={**inherited, **self._environment},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_group(self) -> int:
        """Kill everything in the agent's process group, as a service manager does; the exit code."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        return self.wait_end()

    def signal(self, number: signal.Signals, within_s: float = 30.0) -> int:
        """Send it and wait for the end; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait_end(within_s)

    def wait_end(self, within_s: float = 30.0) -> int:
        assert self._process is not None
        code = self._process.wait(within_s)
        self._process = None
        return code

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def want(self, *workers: WorkerSpec) -> int:
        """Send the next generation, as the control plane does; its number."""
        self._generation += 1
        spec = NodeSpec(node_id=NODE, generation=self._generation, workers=workers)
        self.send(encode_text(spec))
        return self._generation

    def send(self, text: str) -> None:
        self._app.send_task(TASK_APPLY_NODE_SPEC, args=[text], queue=node_queue(NODE))

    def reports(self) -> list[NodeReport]:
        """Everything in the control plane's queue, oldest first; it stays there."""
        messages = [json.loads(message) for message in self._redis.lrange(CONTROL_QUEUE, 0, -1)]
        assert all(message["headers"]["task"] == TASK_RECORD_NODE_REPORT for message in messages)
        bodies = [json.loads(base64.b64decode(message["body"])) for message in reversed(messages)]
        return [decode(body[0][0], NodeReport) for body in bodies]

    def newest(self) -> NodeReport | None:
        try:
            reports = self.reports()
        except redis.RedisError:
            return None
        return reports[-1] if reports else None

    def worker(self, worker_id: str) -> WorkerReport | None:
        report = self.newest()
        listed = report.workers if report else ()
        return next((worker for worker in listed if worker.worker_id == worker_id), None)

    def wait(self, worker_id: str, phase: WorkerPhase, within_s: float = 30.0) -> WorkerReport:
        def there() -> WorkerReport | None:
            worker = self.worker(worker_id)
            return worker if worker is not None and worker.phase is phase else None

        return self.wait_for(there, within_s)

    def wait_for(self, condition: Callable[[], Any], within_s: float = 30.0) -> Any:
        return wait_for(condition, within_s, lambda: f"it; newest report {self.newest()}\n{self.log.read_text()}")
