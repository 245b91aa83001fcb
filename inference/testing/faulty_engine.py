"""The native engine with faults where a test plants them: the real model, broken to order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Sampling
from inference.contracts.specs import EngineSettings
from inference.contracts.states import Role
from inference.engine.interface import Digest, KVHandle, Progress, Sink, Token, TokenIds
from inference.engine.native import NativeEngine
from inference.testing.faults import FaultKind, FaultPlan, FaultPoint


class FaultyEngine(NativeEngine):
    """Takes faults of the kinds REFUSE, CRASH and SLOW, at the points of a request.

    It outlives the workers around it, so that many tests share one that loaded its model: only the first start loads
    it, and a stop gives back what the worker held, as the end of a process would. `close` ends it.

    crash: ends the worker, or what stands for it.
    """

    def __init__(self, model_path: str, model_name: str, role: Role, settings: EngineSettings) -> None:
        super().__init__(model_path, model_name, role, settings)
        self.faults = FaultPlan()
        self.crash: Callable[[], None] = lambda: None
        self._held: set[KVHandle] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        if self._started is None:
            super().start()

    def stop(self) -> None:
        with self._lock:
            held = list(self._held)
        for handle in held:
            self.release(handle)

    def close(self) -> None:
        """End the loop thread."""
        super().stop()

    def reserve(self, capacity: int, prompt: TokenIds = (), *, answers: int = 1, salt: str = "") -> KVHandle:
        handle = super().reserve(capacity, prompt, answers=answers, salt=salt)
        with self._lock:
            self._held.add(handle)
        return handle

    def release(self, handle: KVHandle) -> None:
        super().release(handle)
        with self._lock:
            self._held.discard(handle)

    def prefill(
        self,
        handle: KVHandle,
        token_ids: list[int],
        sampling: Sampling,
        sink: Sink,
        *,
        report_progress: bool,
        by_layer: bool = False,
        priority: int = 0,
    ) -> None:
        faulty = _FaultySink(self, sink, reads=True)
        super().prefill(
            handle,
            token_ids,
            sampling,
            faulty,
            report_progress=report_progress,
            by_layer=by_layer,
            priority=priority,
        )

    def generate(
        self, handle: KVHandle, token_ids: list[int], sampling: Sampling, sink: Sink, *, priority: int = 0
    ) -> None:
        super().generate(handle, token_ids, sampling, _FaultySink(self, sink, reads=True), priority=priority)

    def resume(
        self,
        handle: KVHandle,
        token_ids: list[int],
        first_tokens: tuple[int, ...],
        sampling: Sampling,
        sink: Sink,
        *,
        priority: int = 0,
    ) -> int:
        faulty = _FaultySink(self, sink, reads=False)
        return super().resume(handle, token_ids, first_tokens, sampling, faulty, priority=priority)

    def export_kv(self, handle: KVHandle, layers: range, start: int, end: int) -> list[memoryview]:
        self._refuse_transfer()
        return super().export_kv(handle, layers, start, end)

    def import_kv(
        self,
        handle: KVHandle,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        self._refuse_transfer()
        super().import_kv(handle, layers, start, end, data, digest)

    def _refuse_transfer(self) -> None:
        if self.faults.strike(FaultPoint.MID_TRANSFER, FaultKind.REFUSE):
            raise _refusal(FaultPoint.MID_TRANSFER)


class _FaultySink:
    """Acts the faults of `engine` out before it passes on to `sink` what happens to a request. reads: it begins with
    its prompt, not with KV that came from elsewhere."""

    def __init__(self, engine: FaultyEngine, sink: Sink, *, reads: bool) -> None:
        self._engine = engine
        self._sink = sink
        self._reads = reads
        self._ended = False

    def started(self) -> None:
        if not self._reads or self._passes(FaultPoint.BEFORE_PREFILL):
            self._sink.started()

    def progress(self, progress: Progress) -> None:
        """What is refused is the KV itself: see `export_kv`."""
        if not progress.start or self._passes(FaultPoint.MID_TRANSFER, FaultKind.CRASH, FaultKind.SLOW):
            self._sink.progress(progress)

    def token(self, token: Token) -> None:
        first, self._reads = self._reads, False
        if self._passes(FaultPoint.AFTER_PREFILL if first else FaultPoint.MID_DECODE):
            self._sink.token(token)

    def failed(self, error: Exception) -> None:
        if not self._ended:
            self._sink.failed(error)

    def _passes(self, point: FaultPoint, *kinds: FaultKind) -> bool:
        """Whether the request is alive after `point`."""
        fault = None if self._ended else self._engine.faults.strike(point, *kinds)
        if fault is None:
            return not self._ended
        if fault.kind is FaultKind.SLOW:
            time.sleep(fault.seconds)
            return True
        self._ended = True
        if fault.kind is FaultKind.CRASH:
            self._engine.crash()
        else:
            self._sink.failed(_refusal(point))
        return False


def _refusal(point: FaultPoint) -> TandemError:
    code = ErrorCode.TRANSFER_FAILED if point is FaultPoint.MID_TRANSFER else ErrorCode.ENGINE_FAILED
    return TandemError(code, f"refused at {point} (planted)")
