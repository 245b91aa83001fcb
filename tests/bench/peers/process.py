"""The bench's end of the protocol: a peer as a process that is asked and ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]

#: Loading a model, importing all of another engine included; one answer.
_READY_S, _ANSWER_S = 240.0, 300.0
_END_S = 15.0


class PeerFailed(Exception):
    """A peer could not be started, or did not answer; with the end of what it printed."""


@dataclass(frozen=True)
class PeerSpec:
    """What is run, and by whose Python. name: as the table says it; no two peers share one."""

    name: str
    module: str
    python: Path
    options: Mapping[str, Any] = field(compare=False)


class PeerProcess:
    """A running peer. `close` ends it."""

    def __init__(self, spec: PeerSpec, model: Path, log: Path) -> None:
        self.spec = spec
        self._log = log
        threads = str(spec.options["threads"])
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "TOKENIZERS_PARALLELISM": "false"}
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [spec.python, "-m", f"tests.bench.peers.{spec.module}", str(model), json.dumps(dict(spec.options))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=ROOT,
            )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._next(_READY_S)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: Mapping[str, Any]) -> float:
        """Seconds that the peer measured."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(question)) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailed(f"{self.spec.name} has ended:\n{self._printed()}") from error
        return self._next(_ANSWER_S)

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _next(self, within_s: float) -> float:
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise PeerFailed(f"{self.spec.name} said nothing for {within_s:g} s:\n{self._printed()}") from None
        if not line:
            raise PeerFailed(f"{self.spec.name} has ended:\n{self._printed()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerFailed(f"{self.spec.name}: {answer['error']}")
        return float(answer["seconds"])

    def _printed(self) -> str:
        return self._log.read_text(errors="replace")[-1500:]
