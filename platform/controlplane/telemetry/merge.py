"""Windows of many sources become one frame a second and one roll-up every ten. Pure: no clock, no socket, no rows.

Histograms and counters add, so percentiles are read from merged buckets and never averaged. A gauge is the sum over
sources of the level each told last. Whatever nobody told is None. The order in which windows arrive does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from msgspec import structs

from controlplane.telemetry.stream import StreamId
from inference.contracts.frames import DeploymentFrame, PoolFrame, Quantiles, TelemetryFrame
from inference.contracts.histogram import Histogram
from inference.contracts.timings import Counter, Gauge, Latency, Window

#: Latencies of a frame cover so many seconds, so that a p99 means something.
LATENCY_SPAN_S = 10

#: A level stands for so many seconds. Sources close their windows once a second, but not on the wall clock's beat: now
#: and then a calendar second falls between two windows, and a sum over workers must not dip for that.
GAUGE_SPAN_S = 2

#: Further ahead of its arrival than this no honest clock can put a window.
AHEAD_S = 5


class Series(NamedTuple):
    """What is drawn as one line: a deployment as its routers saw it (pool_id "", revision 0), or one pool; or, for
    whoever rolls it out, what one revision of the deployment did (pool_id "")."""

    deployment: str
    pool_id: str
    revision: int = 0


class Cell:
    """One second of one series, from all of its sources."""

    def __init__(self, window: Window) -> None:
        self.sums = structs.replace(window, source="", latencies={}, counters={}, gauges={})
        self.levels: dict[tuple[str, Gauge], tuple[StreamId, float]] = {}

    def add(self, position: StreamId, window: Window) -> None:
        """`position`: where the window stood in the stream; decides which level of one source is the last."""
        self.sums.absorb(_without_levels(window))
        for gauge, level in window.gauges.items():
            held = self.levels.get((window.source, gauge))
            if held is None or held[0] < position:
                self.levels[window.source, gauge] = (position, level)


def series_of(window: Window) -> Series:
    return Series(window.deployment, window.pool_id or "", window.revision or 0)


def place(window: Window, position: StreamId) -> Window:
    """The window, moved to its second of arrival when its clock runs so far ahead that it can't be right."""
    arrival = position.ms // 1000
    return structs.replace(window, second=arrival) if window.second > arrival + AHEAD_S else window


class Live:
    """The last seconds of everything, from which frames are made."""

    def __init__(self) -> None:
        self._seconds: dict[int, dict[Series, Cell]] = {}

    def add(self, position: StreamId, window: Window) -> None:
        """What a revision did is in the windows of its deployment too, and is not shown by the second."""
        if window.revision is not None:
            return
        cells = self._seconds.setdefault(window.second, {})
        cells.setdefault(series_of(window), Cell(window)).add(position, window)

    def forget_before(self, second: int) -> None:
        for old in [known for known in self._seconds if known < second]:
            del self._seconds[old]

    def frame(self, second: int) -> TelemetryFrame:
        """What is known of `second`. A series that told nothing for `LATENCY_SPAN_S` is left out."""
        known = {series for at in _span(second, LATENCY_SPAN_S) for series in self._seconds.get(at, ())}
        pools: dict[str, list[Series]] = {series.deployment: [] for series in known}
        for series in sorted(known):
            if series.pool_id:
                pools[series.deployment].append(series)
        deployments = (self._deployment(name, pools[name], second) for name in sorted(pools))
        return TelemetryFrame(second=second, deployments=tuple(deployments))

    def _deployment(self, name: str, pools: list[Series], second: int) -> DeploymentFrame:
        """Requests as the routers saw them; hand-offs as the workers did, who alone make them."""
        series = Series(name, "")
        count = partial(self._count, [series], second)
        made = partial(self._count, pools, second)
        frames = (self._pool(pool, second) for pool in pools)
        return DeploymentFrame(
            deployment=name,
            ttft=self._quantiles(series, second, Latency.TTFT),
            tpot=self._quantiles(series, second, Latency.TPOT),
            itl=self._quantiles(series, second, Latency.ITL),
            first_gap=self._quantiles(series, second, Latency.FIRST_GAP),
            e2e=self._quantiles(series, second, Latency.E2E),
            in_flight=self._levels(series, second).get(Gauge.IN_FLIGHT),
            received=count(Counter.RECEIVED),
            completed=count(Counter.COMPLETED),
            failed=count(Counter.FAILED),
            rejected=count(Counter.REJECTED),
            cancelled=count(Counter.CANCELLED),
            handoffs=made(Counter.HANDOFFS),
            handoff_failures=made(Counter.HANDOFF_FAILURES),
            local_prefills=made(Counter.LOCAL_PREFILLS),
            prompt_tokens=count(Counter.PROMPT_TOKENS),
            output_tokens=count(Counter.OUTPUT_TOKENS),
            pools=tuple(frame for frame in frames if frame is not None),
        )

    def _pool(self, series: Series, second: int) -> PoolFrame | None:
        """None when no window says which role the pool has."""
        role = next((cell.sums.role for cell in self._cells(series, second, LATENCY_SPAN_S) if cell.sums.role), None)
        if role is None:
            return None
        count = partial(self._count, [series], second)
        levels = self._levels(series, second)
        return PoolFrame(
            pool_id=series.pool_id,
            role=role,
            running=levels.get(Gauge.RUNNING),
            waiting=levels.get(Gauge.WAITING),
            waiting_tokens=levels.get(Gauge.WAITING_TOKENS),
            kv_blocks_used=levels.get(Gauge.KV_BLOCKS_USED),
            kv_blocks_total=levels.get(Gauge.KV_BLOCKS_TOTAL),
            ttft=self._quantiles(series, second, Latency.TTFT),
            tpot=self._quantiles(series, second, Latency.TPOT),
            itl=self._quantiles(series, second, Latency.ITL),
            queue=self._quantiles(series, second, Latency.QUEUE),
            transfer=self._quantiles(series, second, Latency.TRANSFER),
            transfer_bytes=count(Counter.TRANSFER_BYTES),
            output_tokens=count(Counter.OUTPUT_TOKENS),
        )

    def _cells(self, series: Series, second: int, span: int) -> Iterator[Cell]:
        """Oldest first."""
        for at in _span(second, span):
            if (cell := self._seconds.get(at, {}).get(series)) is not None:
                yield cell

    def _count(self, of: list[Series], second: int, counter: Counter) -> int | None:
        """The sum over those of `of` whose counters were heard in this second; None when none was.

        Whoever counts also tells its levels each second; latencies alone come from a router, which counts nothing
        for a pool.
        """
        cells = [cell for series in of if (cell := self._seconds.get(second, {}).get(series)) is not None]
        heard = [cell.sums.counters for cell in cells if cell.levels or cell.sums.counters]
        return sum(counters.get(counter, 0) for counters in heard) if heard else None

    def _levels(self, series: Series, second: int) -> dict[Gauge, float]:
        last: dict[tuple[str, Gauge], tuple[StreamId, float]] = {}
        for cell in self._cells(series, second, GAUGE_SPAN_S):
            last.update(cell.levels)
        return _sum_over_sources(last)

    def _quantiles(self, series: Series, second: int, latency: Latency) -> Quantiles:
        merged = Histogram()
        for cell in self._cells(series, second, LATENCY_SPAN_S):
            if (histogram := cell.sums.latencies.get(latency)) is not None:
                merged.merge(histogram)
        return Quantiles(
            count=merged.total, p50=merged.quantile(0.5), p95=merged.quantile(0.95), p99=merged.quantile(0.99)
        )


def roll_up(windows: Iterable[tuple[StreamId, Window]], step_s: int) -> dict[tuple[Series, int], Window]:
    """Windows folded into steps of `step_s` seconds, by series and first second of the step.

    In a folded window the gauges are the levels of the last second that told any, and `second` is that second.
    """
    cells: dict[tuple[Series, int], Cell] = {}
    for position, window in windows:
        cells.setdefault((series_of(window), window.second), Cell(window)).add(position, window)
    steps: dict[tuple[Series, int], Window] = {}
    for (series, second), cell in cells.items():
        part = structs.replace(cell.sums, gauges=_sum_over_sources(cell.levels))
        key = (series, second - second % step_s)
        steps[key] = combine(steps[key], part) if key in steps else part
    return steps


def combine(one: Window, other: Window) -> Window:
    """Two parts of one step as one. Levels don't add up over time: those of the later second stand; parts of one
    second come from different sources, whose levels add up."""
    telling = [part for part in (one, other) if part.gauges] or [one, other]
    second = max(part.second for part in telling)
    both = structs.replace(_without_levels(one), second=second, latencies={}, counters={}, gauges={})
    for part in (one, other):
        both.absorb(part if part in telling and part.second == second else _without_levels(part))
    return both


def _without_levels(window: Window) -> Window:
    return structs.replace(window, gauges={})


def _span(second: int, length: int) -> range:
    return range(second - length + 1, second + 1)


def _sum_over_sources(levels: dict[tuple[str, Gauge], tuple[StreamId, float]]) -> dict[Gauge, float]:
    total: dict[Gauge, float] = {}
    for (_, gauge), (_, level) in levels.items():
        total[gauge] = total.get(gauge, 0) + level
    return total
