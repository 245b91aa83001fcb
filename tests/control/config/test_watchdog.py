"""F12: a control worker that is connected and takes nothing, while messages wait, starts itself again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from inference.broker.watchdog import EXIT_START_AGAIN
from inference.contracts.names import CONTROL_QUEUE
from inference.testing.valkey import ValkeyServer

pytestmark = pytest.mark.chaos

LIMIT_S = 1.5


@contextmanager
def control_worker(folder: Path, broker: ValkeyServer, held: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("TANDEM_", "DJANGO_"))},
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "TANDEM_DATA": str(folder),
        "TANDEM_SECRET_KEY": "k" * 40,
        "TANDEM_CLUSTER_SECRET": "c" * 40,
        "TANDEM_WATCHDOG_S": str(LIMIT_S),
        "REDIS_URL": broker.url,
        "PYTHONPATH": os.pathsep.join(("platform", ".")),
    }
    with (folder / "worker.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.control.config.idle_worker", str(held)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def eventually(holds: Callable[[], object], within_s: float = 40.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it does not come to pass"
        time.sleep(0.05)


def test_a_control_worker_that_takes_nothing_ends_to_be_started_again(tmp_path: Path) -> None:
    held = tmp_path / "held"
    with ValkeyServer(tmp_path / "valkey") as broker, redis.Redis.from_url(broker.url) as queue:
        held.touch()
        with control_worker(tmp_path, broker, held) as idle:
            eventually(lambda: b"ready." in (tmp_path / "worker.log").read_bytes())
            time.sleep(2 * LIMIT_S)
            assert idle.poll() is None, "an empty queue is no reason"
            queue.lpush(CONTROL_QUEUE, "no message")
            assert idle.wait(40) == EXIT_START_AGAIN
            assert b"the consumer takes nothing" in (tmp_path / "worker.log").read_bytes()
        held.unlink()
        with control_worker(tmp_path, broker, held) as able:
            eventually(lambda: queue.llen(CONTROL_QUEUE) == 0)
            time.sleep(2 * LIMIT_S)
            assert able.poll() is None
            able.terminate()
            assert able.wait(40) == 0, "the watch ends with the worker"
