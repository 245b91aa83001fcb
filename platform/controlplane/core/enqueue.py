"""Sending Celery tasks: by name, only once the transaction is committed, and never failing the request.

A task that could not be sent (Redis away) is not lost: the sweep does the same work from the database.
"""

from __future__ import annotations

from functools import partial

import structlog
from django.db import transaction

log = structlog.get_logger()


def enqueue(task: str, *args: object, queue: str | None = None, expires_s: float | None = None) -> None:
    """Send `task` with `args` (JSON values) after the running transaction commits; at once outside of one."""
    transaction.on_commit(partial(_send, task, args, queue, expires_s))


def _send(task: str, args: tuple[object, ...], queue: str | None, expires_s: float | None) -> None:
    from controlplane.config.celery import (
        app,
    )  # the app needs settings; this module is imported by models' services

    try:
        app.send_task(task, args=args, queue=queue, expires=expires_s, retry=False, ignore_result=True)
    except Exception as error:
        log.warning("task not sent; the sweep will catch up", task=task, error=str(error))
