"""The one task of an agent: hand the newest spec to the supervisor."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from celery import Celery

from inference.agent.acceptance import SpecRefused
from inference.contracts.codec import CodecError, decode
from inference.contracts.names import TASK_APPLY_NODE_SPEC
from inference.contracts.specs import NodeSpec

log = structlog.get_logger()


def register(app: Celery, submit: Callable[[NodeSpec], bool]) -> None:
    """Give `app` the task. submit: takes a spec and says whether it was new."""

    @app.task(name=TASK_APPLY_NODE_SPEC)
    def apply_node_spec(encoded: str) -> None:
        """encoded: a `NodeSpec`. One that can't be read or is refused is logged and changes nothing."""
        try:
            spec = decode(encoded, NodeSpec)
            new = submit(spec)
        except (CodecError, SpecRefused) as error:
            log.error("node spec is refused", reason=str(error))
            return
        log.info("node spec", generation=spec.generation, workers=len(spec.workers), new=new)
