"""One-second windows of what clients experienced, per deployment, to the capped stream of windows.

Best effort: serving never waits for it. While Redis is away the windows of the last minutes are kept and sent later.
When Redis takes windows and dies before it says so, they are sent again: those seconds then count twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from inference.contracts import codec, names
from inference.contracts.histogram import Histogram
from inference.contracts.routing import WorkerRoute
from inference.contracts.states import Role
from inference.contracts.timings import Counter, Gauge, Latency, Window

_KEPT_WINDOWS = 600

#: What a revision is judged by.
_OF_REVISIONS = frozenset({Latency.TTFT, Latency.TPOT})
_log = structlog.get_logger()


@dataclass(slots=True)
class Tally:
    """What is noted for every token, apart from windows so that it costs little: tokens of a deployment that a pool's
    workers wrote, and the times between them, in the second under way. closed: that second is over, and what is noted
    here now is lost."""

    worker: WorkerRoute
    tokens: int = 0
    gaps: Histogram = field(default_factory=Histogram)
    closed: bool = False


class Telemetry:
    """router_id: this process. in_flight: live requests of every served deployment, zero included: a deployment that
    is idle says so each second, one that nobody reports is unknown."""

    def __init__(
        self, redis: Redis, router_id: str, window_s: float, in_flight: Callable[[], Mapping[str, int]]
    ) -> None:
        self._redis = redis
        self._source = f"router:{router_id}"
        self._window_s = window_s
        self._in_flight = in_flight
        self._open: dict[tuple[str, str | None, int | None], Window] = {}
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._unsent: deque[bytes] = deque(maxlen=_KEPT_WINDOWS)
        self._closed = asyncio.Event()

    @property
    def unsent(self) -> int:
        """Closed windows that Redis has not taken yet."""
        return len(self._unsent)

    def window(self, deployment: str, worker: WorkerRoute | None = None) -> Window:
        """The window that is open now, of whole requests or of the pool of `worker`; not to be kept."""
        if worker is None:
            return self._window(deployment)
        return self._window(deployment, pool_id=worker.pool_id, role=worker.role)

    def revision_window(self, deployment: str, worker: WorkerRoute) -> Window:
        """The window that is open now of what the revision of `worker` did to requests; not to be kept."""
        return self._window(deployment, revision=worker.revision)

    def _window(
        self, deployment: str, *, pool_id: str | None = None, role: Role | None = None, revision: int | None = None
    ) -> Window:
        key = (deployment, pool_id, revision)
        window = self._open.get(key)
        if window is None:
            window = self._open[key] = Window(
                second=0, source=self._source, deployment=deployment, pool_id=pool_id, role=role, revision=revision
            )
        return window

    def observe(self, deployment: str, latency: Latency, seconds: float, pool_of: WorkerRoute, times: int = 1) -> None:
        """For the deployment, for the pool of the worker that decided it, and for its revision."""
        self.window(deployment).observe(latency, seconds, times)
        self.window(deployment, pool_of).observe(latency, seconds, times)
        if latency in _OF_REVISIONS:
            self.revision_window(deployment, pool_of).observe(latency, seconds, times)

    def tally(self, deployment: str, worker: WorkerRoute) -> Tally:
        """Where the tokens that `worker` writes are noted; may be kept until it is closed."""
        tally = self._tallies.get((deployment, worker.pool_id))
        if tally is None:
            tally = self._tallies[deployment, worker.pool_id] = Tally(worker)
        return tally

    def _take_tallies(self) -> None:
        tallies, self._tallies = self._tallies, {}
        for (deployment, _), tally in tallies.items():
            tally.closed = True
            if tally.tokens:
                self.window(deployment).count(Counter.OUTPUT_TOKENS, tally.tokens)
            if tally.gaps.counts:
                for window in (self.window(deployment), self.window(deployment, tally.worker)):
                    window.latencies.setdefault(Latency.ITL, Histogram()).merge(tally.gaps)

    def close_windows(self, second: int) -> list[Window]:
        """End the open windows as those of unix `second`."""
        self._take_tallies()
        for deployment, level in self._in_flight().items():
            self.window(deployment).gauges[Gauge.IN_FLIGHT] = level
        windows, self._open = list(self._open.values()), {}
        for window in windows:
            window.second = second
        return windows

    async def run_clock(self) -> None:
        """Close windows for ever. Apart from the sending, so that a slow Redis makes no window longer."""
        while True:
            await asyncio.sleep(self._window_s - time.time() % self._window_s)
            self._unsent.extend(codec.encode(window) for window in self.close_windows(int(time.time())))
            self._closed.set()

    async def run_sender(self) -> None:
        """Send closed windows for ever."""
        while True:
            await self._closed.wait()
            self._closed.clear()
            await self._send()

    async def _send(self) -> None:
        sending = list(self._unsent)
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for message in sending:
                    pipe.xadd(
                        names.WINDOW_STREAM,
                        {names.STREAM_FIELD: message},
                        maxlen=names.WINDOW_STREAM_MAXLEN,
                        approximate=True,
                    )
                await pipe.execute()
        except (RedisError, OSError, TimeoutError) as error:
            _log.debug("windows not sent, kept for later", kept=self.unsent, error=str(error))
            return
        for message in sending:
            if self._unsent and self._unsent[0] is message:
                self._unsent.popleft()
