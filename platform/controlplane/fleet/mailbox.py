"""Many reports, few transactions: whoever is free writes all that has come in meanwhile.

A report that arrives while others are being written waits for them, and is then written with everybody else who waited.
So the batches grow with the load by themselves, and a single report is written at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice

import structlog

from controlplane.fleet.credentials import Received

log = structlog.get_logger()

#: Reports written in one transaction. It bounds how long the rows of nodes stay locked.
BATCH_MAX = 200


@dataclass(slots=True)
class _Waiting:
    """turn: counts deliveries; that of the first one, when a newer report of the same agent took its place."""

    turn: int
    received: Received


class Mailbox:
    """record: writes reports, in one transaction. One mailbox per process, shared by the threads of its worker."""

    def __init__(self, record: Callable[[Sequence[Received]], object]) -> None:
        self._record = record
        self._changed = threading.Condition()
        self._turns = count(1)
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._writing: list[_Waiting] = []

    def deliver(self, received: Received) -> None:
        """Write the report, now or with the next batch of a thread that is writing already. An older report of the same
        agent that still waits is dropped: each is complete."""
        key = (received.report.node_id, received.report.boot_id)
        with self._changed:
            waiting = self._waiting.setdefault(key, _Waiting(next(self._turns), received))
            if waiting.received.report.sequence < received.report.sequence:
                waiting.received = received
            if self._writing:
                return
            self._take()
        self._write_all()

    def settled(self, within_s: float) -> bool:
        """Wait until all that was delivered up to now is written; False if that takes longer than `within_s`."""
        with self._changed:
            turn = next(self._turns)
            return self._changed.wait_for(lambda: self._oldest() > turn, within_s)

    def _oldest(self) -> float:
        return min((each.turn for each in (*self._writing, *self._waiting.values())), default=float("inf"))

    def _write_all(self) -> None:
        try:
            while self._writing:
                self._write([each.received for each in self._writing])
                with self._changed:
                    self._take()
        except BaseException:
            with self._changed:
                self._writing = []
                self._changed.notify_all()
            raise

    def _take(self) -> None:
        """What is written next, the oldest first. Nothing: from now on somebody else writes."""
        self._writing = [self._waiting.pop(key) for key in list(islice(self._waiting, BATCH_MAX))]
        self._changed.notify_all()

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
