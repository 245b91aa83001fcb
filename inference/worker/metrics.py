"""Prometheus metrics of one worker, read from what it measures anyway. Names follow those of vLLM where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from inference.contracts.histogram import Histogram, bucket_value
from inference.contracts.reports import WorkerLoad
from inference.contracts.specs import WorkerSpec
from inference.contracts.states import KVTransport
from inference.contracts.timings import Counter, Latency
from inference.transfer.base import TransferCounters
from inference.worker.windows import WindowRecorder

#: Upper bounds in seconds, from half a millisecond to ten minutes.
BOUNDS = (
    *(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0),
)


class WorkerMetrics(Collector):
    """Collects on demand; keeps no numbers of its own. One registry per worker, so that tests may run several."""

    def __init__(
        self,
        spec: WorkerSpec,
        recorder: WindowRecorder,
        counters: TransferCounters,
        load: Callable[[], WorkerLoad | None],
    ) -> None:
        self._labels = {"model_name": spec.model_name, "role": spec.role.value, "worker": spec.worker_id}
        self._recorder = recorder
        self._counters = counters
        self._load = load
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def describe(self) -> list[Metric]:
        """Nothing ahead of the first scrape: one registry holds one worker, so no names can clash."""
        return []

    def render(self) -> tuple[bytes, str]:
        """Body and content type of a scrape."""
        return generate_latest(self._registry), CONTENT_TYPE_PLAIN_0_0_4

    def collect(self) -> Iterator[Metric]:
        load = self._load()
        if load is not None:
            yield from self._levels(load)
        yield from self._counts()
        yield from self._durations()

    def _levels(self, load: WorkerLoad) -> Iterator[Metric]:
        yield self._gauge("num_requests_running", "Requests in the running batch.", load.running)
        yield self._gauge("num_requests_waiting", "Requests before the running batch.", load.waiting)
        yield self._gauge("num_waiting_tokens", "Prompt tokens not computed yet.", load.waiting_tokens)
        usage = load.kv_blocks_used / load.kv_blocks_total
        yield self._gauge("kv_cache_usage_perc", "Share of KV blocks in use or reserved, 0 to 1.", usage)
        yield self._gauge("kv_blocks_used", "KV blocks in use or reserved.", load.kv_blocks_used)
        yield self._gauge("kv_blocks_total", "KV blocks in all.", load.kv_blocks_total)
        yield self._gauge("num_tickets", "Reservations that are alive.", load.tickets)
        yield self._gauge("num_handoffs", "KV hand-offs under way.", load.handoffs)

    def _counts(self) -> Iterator[Metric]:
        counted = self._recorder.total.counters
        sent, received = self._counters.bytes_sent, self._counters.bytes_received
        for name, text, amount in (
            ("prompt_tokens", "Prompt tokens computed.", counted.get(Counter.PROMPT_TOKENS, 0)),
            ("prefix_cache_hits", "Prompt tokens whose KV was cached.", counted.get(Counter.CACHED_TOKENS, 0)),
            ("generation_tokens", "Tokens written.", counted.get(Counter.OUTPUT_TOKENS, 0)),
            ("local_prefills", "Prompts read by the answering worker.", counted.get(Counter.LOCAL_PREFILLS, 0)),
            ("kv_transfer_sent_bytes", "KV bytes sent to decode workers.", sent),
            ("kv_transfer_received_bytes", "KV bytes received and verified.", received),
        ):
            family = CounterMetricFamily(f"tandem_{name}", text, labels=list(self._labels))
            family.add_metric(list(self._labels.values()), amount)
            yield family
        yield self._by_transport("sent", "Hand-offs accepted by a decode worker.", self._counters.fills_sent)
        yield self._by_transport("received", "Hand-offs accepted here.", self._counters.fills_received)
        fallbacks = CounterMetricFamily(
            "tandem_kv_transfer_fallbacks",
            "Connections that had to take another transport than the one they should.",
            labels=[*self._labels, "wanted", "taken"],
        )
        for (wanted, taken), amount in sorted(self._counters.fallbacks.items()):
            fallbacks.add_metric([*self._labels.values(), wanted.value, taken.value], amount)
        yield fallbacks
        failures = CounterMetricFamily(
            "tandem_kv_transfer_failures", "Hand-offs refused or lost.", labels=[*self._labels, "side", "cause"]
        )
        for (side, code), amount in sorted(self._counters.failures.items()):
            failures.add_metric([*self._labels.values(), side, code.value], amount)
        yield failures

    def _by_transport(self, what: str, text: str, amounts: Mapping[KVTransport, int]) -> Metric:
        family = CounterMetricFamily(f"tandem_kv_transfers_{what}", text, labels=[*self._labels, "transport"])
        for transport in KVTransport:
            family.add_metric([*self._labels.values(), transport.value], amounts.get(transport, 0))
        return family

    def _durations(self) -> Iterator[Metric]:
        latencies = self._recorder.total.latencies
        empty = Histogram()
        for name, text, histogram in (
            ("request_queue_time_seconds", "Asked until first computed.", latencies.get(Latency.QUEUE, empty)),
            ("request_prefill_time_seconds", "First chunk until first token.", latencies.get(Latency.PREFILL, empty)),
            ("step_time_seconds", "One step of the engine.", latencies.get(Latency.STEP, empty)),
            ("kv_transfer_time_seconds", "Busy time of the sender.", latencies.get(Latency.TRANSFER, empty)),
            ("handoff_time_seconds", "First token until KV accepted.", self._recorder.handoff),
        ):
            family = HistogramMetricFamily(f"tandem_{name}", text, labels=list(self._labels))
            buckets, total = coarsened(histogram)
            family.add_metric(list(self._labels.values()), buckets, sum_value=total)
            yield family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"tandem_{name}", text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value)
        return family


def coarsened(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts at `BOUNDS` and "+Inf", and the sum in seconds, both within a bucket's 1 %."""
    counts = [0] * (len(BOUNDS) + 1)
    total = 0.0
    for bucket, count in histogram.counts.items():
        value = bucket_value(bucket)
        total += value * count
        counts[next((i for i, bound in enumerate(BOUNDS) if value <= bound), len(BOUNDS))] += count
    cumulative = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*map(str, BOUNDS), "+Inf"], counts, strict=True):
        cumulative += count
        buckets.append((bound, float(cumulative)))
    return buckets, total
