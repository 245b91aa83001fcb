"""What a worker measured, second by second, for `/worker/windows`, and since its start, for `/metrics`."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

import msgspec

from inference.contracts.histogram import Histogram
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.timings import Counter, Gauge, Latency, Window
from inference.contracts.worker import WindowBatch

_KEPT = 600


class WindowRecorder:
    """Folds measurements into the open window and closes it every `window_s` seconds. Used on the event loop only.

    drain: the engine's `drain_window`. load: the worker's load now. total: everything since the worker has its role.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        drain: Callable[[Window], None],
        load: Callable[[], WorkerLoad],
        window_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._drain = drain
        self._load = load
        self._window_s = window_s
        self._clock = clock
        self._open = self._fresh()
        self._closed: deque[tuple[float, Window]] = deque(maxlen=_KEPT)
        self.total = self._fresh()
        self.handoff = Histogram()

    def observe(self, latency: Latency, seconds: float | None) -> None:
        """Nothing is recorded for a stage that did not happen."""
        if seconds is not None:
            self._open.observe(latency, seconds)

    def count(self, counter: Counter, amount: int = 1) -> None:
        self._open.count(counter, amount)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._window_s)
            self.close_window()

    def close_window(self) -> None:
        window, self._open = self._open, self._fresh()
        self._drain(window)
        self.total.absorb(window)
        self.total.gauges.clear()
        load = self._load()
        window.gauges = {
            Gauge.RUNNING: load.running,
            Gauge.WAITING: load.waiting,
            Gauge.WAITING_TOKENS: load.waiting_tokens,
            Gauge.KV_BLOCKS_USED: load.kv_blocks_used,
            Gauge.KV_BLOCKS_TOTAL: load.kv_blocks_total,
        }
        self._closed.append((self._clock(), window))

    def relabel(self, spec: WorkerSpec) -> None:
        """From here on all is measured for another role: totals begin at zero, closed windows keep their labels."""
        self._spec = spec
        self._open = self._fresh()
        self.total = self._fresh()
        self.handoff = Histogram()

    def take(self) -> WindowBatch:
        """The windows closed since the last call; `second` counts back from now."""
        now = self._clock()
        windows = []
        while self._closed:
            closed_at, window = self._closed.popleft()
            windows.append(msgspec.structs.replace(window, second=-int(now - closed_at)))
        return WindowBatch(windows=tuple(windows))

    def _fresh(self) -> Window:
        spec = self._spec
        return Window(
            second=0,
            source=f"worker:{spec.worker_id}",
            deployment=spec.deployment,
            pool_id=spec.pool_id,
            role=spec.role,
        )
