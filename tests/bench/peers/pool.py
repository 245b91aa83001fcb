"""The peers of a run: each is started when it is first asked, and a failure is remembered instead of tried again."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench.peers.environments import VLLM, prepare
from tests.bench.peers.process import PeerFailed, PeerProcess, PeerSpec

OWN = Path(sys.executable)


def tandem(dtype: str = "float32", threads: int = 2, chunk: int = 0) -> PeerSpec:
    name = f"Tandem, {dtype}, {threads} threads" + (f", chunks of {chunk}" if chunk else "")
    return PeerSpec(name, "tandem", OWN, {"dtype": dtype, "threads": threads, "chunk": chunk})


def generate(threads: int = 2) -> PeerSpec:
    return PeerSpec(f"generate, {threads} threads", "generate", OWN, {"dtype": "float32", "threads": threads})


def continuous(threads: int = 2) -> PeerSpec:
    return PeerSpec(
        f"continuous batching, {threads} threads", "continuous", OWN, {"dtype": "float32", "threads": threads}
    )


def vllm(dtype: str, threads: int = 2) -> PeerSpec:
    return PeerSpec(f"vLLM, {dtype}, {threads} threads", "vllm_cpu", VLLM.python, {"dtype": dtype, "threads": threads})


class PeerPool:
    def __init__(self, model: Path, logs: Path) -> None:
        self.versions: dict[str, str] = {}
        self._model, self._logs = model, logs
        self._running: dict[str, PeerProcess] = {}
        self._failed: dict[str, str] = {}

    def ask(self, spec: PeerSpec, question: Mapping[str, Any]) -> float:
        """Seconds that the peer measured. Raises `PeerFailed`."""
        if spec.name in self._failed:
            raise PeerFailed(self._failed[spec.name])
        try:
            if spec.name not in self._running:
                self._start(spec)
            return self._running[spec.name].ask(question)
        except PeerFailed as error:
            self._failed[spec.name] = str(error)
            print(f"  {error}", flush=True)
            self.close(spec)
            raise

    def close(self, *specs: PeerSpec) -> None:
        """End these peers; without any, all."""
        for name in [spec.name for spec in specs] or list(self._running):
            if name in self._running:
                self._running.pop(name).close()

    def _start(self, spec: PeerSpec) -> None:
        print(f"  starting {spec.name}", flush=True)
        if spec.python == VLLM.python and not self.versions:
            self.versions = prepare(VLLM)
        log = self._logs / f"{re.sub('[^a-z0-9]+', '-', spec.name.lower())}.log"
        peer = self._running[spec.name] = PeerProcess(spec, self._model, log)
        # The first of anything is slower than the second.
        peer.ask({"do": "step", "answers": 2, "context": 32, "steps": 2, "seed": 0})
        peer.ask({"do": "prompt", "tokens": 128, "seed": 0})
