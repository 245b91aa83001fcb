"""The tasks of an agent's Celery app: each hands its message to the inbox."""

from __future__ import annotations

from celery import Celery

from inference.agent.control.inbox import Inbox
from inference.contracts.names import TASK_APPLY_NODE_SPEC, TASK_SEND_LOG


def register(app: Celery, inbox: Inbox) -> None:
    """Give `app` its tasks. Not shared: another app of the process gets none of them."""

    @app.task(name=TASK_APPLY_NODE_SPEC, shared=False)
    def apply_node_spec(encoded: str, code: str = "") -> None:
        inbox.apply_node_spec(encoded, code)

    @app.task(name=TASK_SEND_LOG, shared=False)
    def send_worker_log(encoded: str, code: str = "") -> None:
        inbox.send_worker_log(encoded, code)
