"""Ctrl-C and SIGTERM as an exception: raised once, and never between starting a process and noting it down."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """Somebody wants everything to stop."""


class Interrupt:
    """What the main thread does about signals from `install` to `ignore`."""

    def __init__(self) -> None:
        self._arrived = False
        self._held = False

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def ignore(self) -> None:
        """Whatever arrives from here on changes nothing: stopping is under way."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A signal that arrives inside is raised at the end."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._arrived:
            raise Stopped

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self._arrived = self._arrived, True
        if not again and not self._held:
            raise Stopped
