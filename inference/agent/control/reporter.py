"""Sends the node's complete report: at a steady pace, and at once when something changed.

Runs in a thread of its own, because a broker that is away may block a send for seconds and nothing else may wait for
it. A report is built at the moment it is sent, so there is never a queue of old ones; what could not be sent is
simply superseded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from inference.contracts.codec import encode_text
from inference.contracts.reports import NodeReport

log = structlog.get_logger()


class SendFailed(Exception):
    """The report did not get through; the text says why."""


class NotAdmitted(SendFailed):
    """The broker does not take this node's credentials."""


class Reporter:
    """build: the report as of now, or None while there is nothing worth reporting. send: delivers its text or raises
    `SendFailed`. interval_s: between reports when nothing changes, asked anew each time. debounce_s: changes this close
    make one report."""

    def __init__(
        self,
        *,
        build: Callable[[], NodeReport | None],
        send: Callable[[str], None],
        interval_s: Callable[[], float],
        debounce_s: float,
    ) -> None:
        self._build = build
        self._send = send
        self._interval_s = interval_s
        self._debounce_s = debounce_s
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._interrupted = False
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def changed(self) -> None:
        """Something is worth a report now. Never blocks."""
        self._changed.set()

    def close(self, within_s: float) -> None:
        """Send a last report and end, waiting at most `within_s`; a send that hangs longer is left behind."""
        self._closing.set()
        self._changed.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        while True:
            self._changed.clear()
            self._report()
            if self._closing.is_set():
                return
            if self._changed.wait(self._interval_s()):
                time.sleep(self._debounce_s)

    def _report(self) -> None:
        try:
            report = self._build()
            if report is not None:
                self._send(encode_text(report))
                self._went_well()
        except SendFailed as error:
            self._went_wrong(error)
        except Exception:
            log.exception("the report could not be made")

    def _went_well(self) -> None:
        if self._interrupted:
            log.info("reports arrive again")
        self._interrupted = False

    def _went_wrong(self, error: SendFailed) -> None:
        if not self._interrupted:
            log.warning("reports do not arrive; this node goes on as last told", error=str(error))
        self._interrupted = True
