"""The tasks of an agent: hand the newest spec on, and send the log that was asked for. Both check first whose message
it is."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from celery import Celery

from inference.agent.acceptance import SpecRefused
from inference.agent.seal import Seal, WrongCode
from inference.contracts.codec import CodecError, decode
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_SEND_LOG
from inference.contracts.specs import LogRequest, NodeSpec

log = structlog.get_logger()


def register(
    app: Celery,
    *,
    seal: Seal,
    taken: Callable[[], None],
    submit: Callable[[NodeSpec], bool],
    send_log: Callable[[LogRequest], None],
) -> None:
    """Give `app` its tasks. taken: told of every message, whatever comes of it. submit: takes a spec and says whether
    it was new. send_log: answers a request; a failure to is its own affair."""

    @app.task(name=TASK_APPLY_NODE_SPEC, shared=False)
    def apply_node_spec(encoded: str, code: str = "") -> None:
        """encoded: a `NodeSpec`. One that is not the control plane's, can't be read or is refused is logged and changes
        nothing."""
        taken()
        try:
            seal.check(TASK_APPLY_NODE_SPEC, encoded, code)
            spec = decode(encoded, NodeSpec)
            new = submit(spec)
        except (WrongCode, CodecError, SpecRefused) as error:
            log.error("node spec is refused", reason=str(error))
            return
        log.info("node spec", generation=spec.generation, workers=len(spec.workers), new=new)

    @app.task(name=TASK_SEND_LOG, shared=False)
    def send_worker_log(encoded: str, code: str = "") -> None:
        """encoded: a `LogRequest`. Logs may hold what people wrote, so a node without a key sends none."""
        taken()
        try:
            if not seal.has_key:
                raise WrongCode("a log was asked for before the control plane gave this node a key")
            seal.check(TASK_SEND_LOG, encoded, code)
            request = decode(encoded, LogRequest)
        except (WrongCode, CodecError) as error:
            log.error("request for a log is refused", reason=str(error))
            return
        send_log(request)
