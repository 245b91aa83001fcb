"""A worker's log, asked of its node: the request goes to the node's queue, the answer comes back in a list of its own.

Nothing of it is stored. The caller's thread waits: an asynchronous one calls this through `asyncio.to_thread`.
"""

from __future__ import annotations

import time
import uuid

import redis
import structlog

from controlplane.core.enqueue import enqueue
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.redis import sync_client
from controlplane.fleet.credentials import message_args
from controlplane.fleet.models import Node
from inference.contracts import codec, names
from inference.contracts.reports import LogReply
from inference.contracts.specs import LogRequest
from inference.contracts.states import LogRun, NodeDesired, NodePhase

log = structlog.get_logger()

LINES_MAX = 5000

#: One wait at the server; shorter than the deadline of the connection, which would take it for dead.
_WAIT_S = 1.0


def log_fetch(
    node: Node, worker_id: str, *, run: LogRun = LogRun.CURRENT, lines: int = 200, within_s: float = 5.0
) -> tuple[str, ...]:
    """The last `lines` lines of that run's log, oldest first, safe to show. Not to be called in a transaction.

    Raises:
        Invalid: the number of lines is out of range.
        Conflict: the node does not report, does not answer within `within_s`, or has no such log; the sentence says.
    """
    if not 1 <= lines <= LINES_MAX:
        raise Invalid(f"1 to {LINES_MAX} lines can be shown, not {lines}.", field="lines")
    if node.phase != NodePhase.READY or node.desired == NodeDesired.RETIRED:
        raise Conflict(f"{node.name} does not report, so it can't be asked for a log.", code="node_away")
    # The node may push to keys of its own id only.
    request = LogRequest(request_id=f"{node.pk}:{uuid.uuid4().hex}", worker_id=worker_id, run=run, lines=lines)
    encoded = codec.encode_text(request)
    arguments = message_args(node, names.TASK_SEND_LOG, encoded)
    if len(arguments) == 1:
        raise Conflict(f"{node.name} runs an agent that can't send logs yet; upgrade it.", code="node_too_old")
    enqueue(names.TASK_SEND_LOG, *arguments, queue=names.node_queue(str(node.pk)))
    reply = _wait(names.log_reply_key(request.request_id), within_s)
    if reply is None:
        raise Conflict(f"{node.name} did not send the log within {within_s:g} s; try again.", code="log_late")
    if reply.error:
        raise Conflict(f"There is no log: {reply.error}.", code="no_log")
    return reply.lines


def _wait(key: str, within_s: float) -> LogReply | None:
    deadline = time.monotonic() + within_s
    while (left := deadline - time.monotonic()) > 0:
        try:
            found = sync_client().brpop([key], timeout=min(left, _WAIT_S))
        except redis.RedisError as error:
            log.warning("no log: Redis is away", error=str(error))
            return None
        if found is not None:
            return codec.decode(found[1], LogReply)
    return None
