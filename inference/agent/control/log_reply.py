"""Answers a request for a worker's log: the lines go under a key of their own, which expires by itself."""

from __future__ import annotations

import redis
import structlog

from inference.agent.control.acceptance import is_worker_id
from inference.agent.state_dir import StateDir
from inference.agent.workers import logs
from inference.contracts.codec import encode
from inference.contracts.names import log_reply_key
from inference.contracts.reports import LogReply
from inference.contracts.specs import LogRequest

#: Nobody waits longer than this for the answer.
KEPT_S = 60

log = structlog.get_logger()


def log_reply(state: StateDir, request: LogRequest) -> LogReply:
    """The lines that are asked for, or why there are none."""
    if not is_worker_id(request.worker_id):
        return LogReply(error=f"{request.worker_id!r} can't be a worker's id")
    lines = logs.read(state.log_file(request.worker_id), request.run, request.lines)
    if lines is None:
        return LogReply(error=f"this node holds no log of the {request.run} run of worker {request.worker_id}")
    return LogReply(lines=lines)


def send_log_reply(broker: redis.Redis, state: StateDir, request: LogRequest) -> None:
    """One push, so that whoever waits gets all of it at once. A reply that can't be sent is not sent again: whoever
    waited asks again."""
    key = log_reply_key(request.request_id)
    try:
        with broker.pipeline(transaction=True) as both:
            both.lpush(key, encode(log_reply(state, request)))
            both.expire(key, KEPT_S)
            both.execute()
    except (redis.RedisError, OSError) as error:
        log.warning("log could not be sent", worker_id=request.worker_id, error=str(error))
