"""`manage.py telemetry`: the one telemetry process, until SIGTERM or SIGINT."""

from __future__ import annotations

import signal
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.core.redis import sync_client
from controlplane.telemetry.process import TelemetryProcess

log = structlog.get_logger()

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


class Command(BaseCommand):
    help = "Merge the telemetry windows of routers and workers: one event a second to the consoles, roll-ups to the "
    help += "database. Exactly one of these runs per control plane."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--close-after-s", type=float, default=2.0, help="show a second so long after its end")
        parser.add_argument("--retention-s", type=float, default=86_400.0, help="keep roll-ups for so long")

    def handle(self, *args: Any, **options: Any) -> None:
        # Blocked before the threads start, so that none of them takes the signal: it is waited for here.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        process = TelemetryProcess(
            sync_client(), close_after_s=options["close_after_s"], retention_s=options["retention_s"]
        )
        process.start()
        log.info("telemetry runs", close_after_s=options["close_after_s"], retention_s=options["retention_s"])
        caught = None
        while caught is None and process.alive:
            caught = signal.sigtimedwait(STOP_SIGNALS, 1.0)
        process.stop()
        if caught is None:
            raise CommandError("a telemetry loop ended by an error; see the log above")
        log.info("telemetry stopped", signal=signal.Signals(caught.si_signo).name)
