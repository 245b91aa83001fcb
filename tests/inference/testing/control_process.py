"""A real Celery worker of the control plane's queue: `python -m tests.inference.testing.control_process <broker>`.

Keeps the newest report of each node in the hash `newest`, and counts in `unsigned` those without a right code.
"""

from __future__ import annotations

import sys

import redis
from celery import Celery

from inference.contracts.auth import verify_message
from inference.contracts.codec import decode
from inference.contracts.names import CONTROL_QUEUE, TASK_RECORD_NODE_REPORT
from inference.contracts.reports import NodeReport
from tests.inference.testing.test_simulated_node import KEY

if __name__ == "__main__":
    broker = redis.Redis.from_url(sys.argv[1])
    app = Celery("control", broker=sys.argv[1], fixups=[])
    app.conf.update(task_ignore_result=True, worker_enable_remote_control=False)

    @app.task(name=TASK_RECORD_NODE_REPORT)
    def record(encoded: str, code: str = "") -> None:
        if not verify_message(KEY, TASK_RECORD_NODE_REPORT, encoded, code):
            broker.incr("unsigned")
        broker.hset("newest", decode(encoded, NodeReport).node_id, encoded)

    app.worker_main(["worker", "--pool=solo", f"--queues={CONTROL_QUEUE}", "--loglevel=WARNING"])
