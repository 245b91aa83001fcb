"""Many reports, few transactions: whoever is free writes all that has come in meanwhile.

A report that arrives while others are being written waits for them, and is then written with everybody else who waited.
So the batches grow with the load by themselves, and a single report is written at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from controlplane.fleet.credentials import Received

log = structlog.get_logger()

#: Reports written in one transaction. It bounds how long the rows of nodes stay locked.
BATCH_MAX = 200


class Mailbox:
    """record: writes reports, in one transaction. One mailbox per process, shared by the threads of its worker."""

    def __init__(self, record: Callable[[Sequence[Received]], object]) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], Received] = {}
        self._writing = False

    def deliver(self, received: Received) -> None:
        """Write the report, now or with the next batch of a thread that is writing already. An older report of the same
        agent that still waits is dropped: each is complete."""
        key = (received.report.node_id, received.report.boot_id)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None or waiting.report.sequence < received.report.sequence:
                self._waiting[key] = received
            if self._writing:
                return
            self._writing = True
        self._write_all()

    def _write_all(self) -> None:
        try:
            while batch := self._take():
                self._write(batch)
        except BaseException:
            with self._lock:
                self._writing = False
            raise

    def _take(self) -> list[Received]:
        """What waits, the oldest first. Nothing: from now on somebody else writes."""
        with self._lock:
            batch = [self._waiting.pop(key) for key in list(self._waiting)[:BATCH_MAX]]
            self._writing = bool(batch)
            return batch

    def _write(self, batch: list[Received]) -> None:
        try:
            self._record(batch)
        except Exception:
            if len(batch) == 1:
                raise
            log.exception("reports not written together; each by itself", reports=len(batch))
            self._write_each(batch)

    def _write_each(self, batch: list[Received]) -> None:
        """One that can't be written must not keep the others from it."""
        for received in batch:
            try:
                self._record([received])
            except Exception:
                log.exception("report not written; the next is complete again", node=received.report.node_id)
