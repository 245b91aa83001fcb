"""Claims about the control worker as a process: no message ends it, or keeps it from those behind it (F12)."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import kombu
import redis

from inference.contracts.names import CONTROL_QUEUE, TASK_RECORD_NODE_REPORT
from inference.testing.valkey import ValkeyServer
from tests.stack import ROOT

HEADERS = {"lang": "py", "task": TASK_RECORD_NODE_REPORT, "id": "x", "argsrepr": "", "kwargsrepr": ""}
EMPTY = b"[[], {}, {}]"
#: What is in the queue as it is: no envelope of Celery's.
JUNK = (b"junk", b"5", b"{}", b'{"body": 1, "properties": 2}', b"\xff\xfe", b"[" * 100_000)
#: In an envelope: body, its kind, headers.
MALFORMED = (
    (pickle.dumps(([1], {}, {})), "application/x-python-serialize", HEADERS),
    (b"no json", "application/json", HEADERS),
    (b"5", "application/json", HEADERS),
    (b'{"args": 1}', "application/json", HEADERS),
    (b"[" * 100_000, "application/json", HEADERS),
    (EMPTY, "application/json", {**HEADERS, "task": ["a list"]}),
    (EMPTY, "application/json", {**HEADERS, "task": "os.system"}),
    (EMPTY, "application/json", {**HEADERS, "eta": "soon"}),
    (EMPTY, "application/json", {**HEADERS, "timelimit": 5}),
    (b'[[], {}, {"callbacks": 5, "chain": 7}]', "application/json", HEADERS),
)


def wait_for(condition: Callable[[], bool], deadline_s: float = 30.0) -> bool:
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_f12_no_message_ends_the_control_worker_or_keeps_it_from_the_next(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ValkeyServer(tmp_path / "valkey") as server, kombu.Connection(server.url) as connection:
        queue = redis.Redis.from_url(server.url)
        with running(control_worker(server.url, tmp_path, log)) as worker, connection.Producer() as producer:
            assert wait_for(lambda: "ready." in log.read_text()), log.read_text()
            for junk in JUNK:
                queue.lpush(CONTROL_QUEUE, junk)
            for body, kind, headers in MALFORMED:
                producer.publish(
                    body, routing_key=CONTROL_QUEUE, content_type=kind, content_encoding="binary", headers=headers
                )
            producer.publish((["no report"], {}, {}), routing_key=CONTROL_QUEUE, serializer="json", headers=HEADERS)

            assert wait_for(lambda: "node report not readable" in log.read_text()), log.read_text()[-4000:]
            assert queue.llen(CONTROL_QUEUE) == 0
            assert worker.poll() is None
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(20) == 0


def control_worker(url: str, data: Path, log: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "REDIS_URL": url,
        "DATABASE_URL": "",
        "TANDEM_DATA": str(data),
        "TANDEM_SECRET_KEY": "tests",
        "TANDEM_CLUSTER_SECRET": "tests",
        "DJANGO_SETTINGS_MODULE": "controlplane.config.settings",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "platform"), str(ROOT)]),
    }
    with log.open("wb") as output:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "celery", "-A", "controlplane.config.celery", "worker"),
                *("--queues", CONTROL_QUEUE, "--pool", "threads", "--concurrency", "2"),
                *("--without-mingle", "--without-gossip", "--loglevel", "INFO"),
            ],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
