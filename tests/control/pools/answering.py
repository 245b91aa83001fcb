"""A node that answers requests for logs, while somebody waits for the answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import redis

from inference.contracts import codec, names
from inference.contracts.reports import LogReply
from inference.contracts.specs import LogRequest
from tests.control.conftest import Outbox


@contextmanager
def answering(broker: redis.Redis, outbox: Outbox, reply: LogReply) -> Iterator[list[LogRequest]]:
    """What it was asked. Requests are those that went out; answers travel over Redis, as real ones do."""
    asked: list[LogRequest] = []
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.005):
            sent = [args for task, args, _ in outbox.tasks if task == names.TASK_SEND_LOG]
            for encoded, _ in sent[len(asked) :]:
                request = codec.decode(str(encoded), LogRequest)
                asked.append(request)
                broker.lpush(names.log_reply_key(request.request_id), codec.encode(reply))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield asked
    finally:
        ended.set()
        thread.join()
