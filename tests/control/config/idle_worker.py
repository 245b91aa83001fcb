"""The control worker's command: `python -m tests.control.config.idle_worker FILE`. While FILE is there, its consumer is
connected and asks for no message."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kombu.transport.redis import Channel

from controlplane.config.celery import app

_ask = Channel._brpop_start


def _ask_unless_held(self: Channel, *args: Any, **kwargs: Any) -> None:
    if not Path(sys.argv[1]).exists():
        _ask(self, *args, **kwargs)


if __name__ == "__main__":
    Channel._brpop_start = _ask_unless_held
    app.worker_main(
        [
            *("worker", "--queues", "control", "--loglevel", "INFO"),
            *("--pool", "threads", "--concurrency", "2", "--without-mingle", "--without-gossip"),
        ]
    )
