"""What the control plane sends to a node, taken one by one. Checks first whose message it is."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from inference.agent.control.acceptance import SpecRefused
from inference.agent.control.seal import Seal, WrongCode
from inference.contracts.codec import CodecError, decode
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_SEND_LOG
from inference.contracts.specs import LogRequest, NodeSpec

log = structlog.get_logger()


class Inbox:
    """submit: takes a spec and says whether it was new. send_log: answers a request; a failure to is its own affair.
    taken: messages so far, whatever came of them."""

    def __init__(
        self, *, seal: Seal, submit: Callable[[NodeSpec], bool], send_log: Callable[[LogRequest], None]
    ) -> None:
        self._seal = seal
        self._submit = submit
        self._send_log = send_log
        self.taken = 0

    def apply_node_spec(self, encoded: str, code: str = "") -> None:
        """encoded: a `NodeSpec`. One that is not the control plane's, can't be read or is refused is logged and changes
        nothing."""
        self.taken += 1
        try:
            self._seal.check(TASK_APPLY_NODE_SPEC, encoded, code)
            spec = decode(encoded, NodeSpec)
            new = self._submit(spec)
        except (WrongCode, CodecError, SpecRefused) as error:
            log.error("node spec is refused", reason=str(error))
            return
        log.info("node spec", generation=spec.generation, workers=len(spec.workers), new=new)

    def send_worker_log(self, encoded: str, code: str = "") -> None:
        """encoded: a `LogRequest`. Logs may hold what people wrote, so a node without a key sends none."""
        self.taken += 1
        try:
            if not self._seal.has_key:
                raise WrongCode("a log was asked for before the control plane gave this node a key")
            self._seal.check(TASK_SEND_LOG, encoded, code)
            request = decode(encoded, LogRequest)
        except (WrongCode, CodecError) as error:
            log.error("request for a log is refused", reason=str(error))
            return
        self._send_log(request)
