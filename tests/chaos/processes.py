"""Processes that are started again when they end, as a service manager does it."""

from __future__ import annotations

import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

_AGAIN_AFTER_S = 0.5


@dataclass
class Kept:
    """One process that is wanted. environment: all of it. ends: when (monotonic) it ended unasked, and its code."""

    name: str
    argv: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    wanted: bool = True
    started: float = 0.0
    ends: list[tuple[float, int]] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None and self.process.poll() is None else None


class Keeper:
    """Starts processes, and again whenever one ends. Each leads a session of its own."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    def start(self, name: str, argv: list[str], environment: dict[str, str], log: Path) -> Kept:
        kept = Kept(name, argv, environment, log)
        with self._lock:
            self._launch(kept)
            self.kept[name] = kept
        return kept

    def stop(self, name: str, within_s: float = 30.0) -> None:
        """SIGTERM, and SIGKILL where that does not help; it is not started again."""
        with self._lock:
            kept = self.kept[name]
            kept.wanted = False
        if kept.process is not None and kept.process.poll() is None:
            kept.process.terminate()
            try:
                kept.process.wait(within_s)
            except subprocess.TimeoutExpired:
                kept.process.kill()
                kept.process.wait()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5)
        for name in reversed(list(self.kept)):
            self.stop(name)

    def _run(self) -> None:
        while not self._closing.wait(0.2):
            with self._lock:
                for kept in self.kept.values():
                    self._look(kept)

    def _look(self, kept: Kept) -> None:
        if not kept.wanted or kept.process is None:
            return
        code = kept.process.poll()
        if code is None:
            return
        now = time.monotonic()
        if not kept.ends or kept.ends[-1][0] < kept.started:
            kept.ends.append((now, code))
        if now - kept.ends[-1][0] >= _AGAIN_AFTER_S:
            self._launch(kept)

    def _launch(self, kept: Kept) -> None:
        with kept.log.open("ab") as output:
            kept.process = subprocess.Popen(
                kept.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=kept.environment,
            )
        kept.started = time.monotonic()
