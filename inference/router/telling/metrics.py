"""What Prometheus can read from a router. Labels are deployments, outcomes and codes. What is told of a deployment ends
some time after the deployment; pairs of workers are told of while they are there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inference.contracts.worker import PairReport
from inference.router.workers.pairs import Pair

_TTFT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800)
_TPOT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_E2E_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800)

#: The series of a deployment that is gone are told for so long, so that their last increase is scraped.
TOLD_AFTER_S = 300.0


class Metrics:
    """in_flight, waiting: live requests per served deployment, and those of them that wait for a worker with room.
    table_version: of the routing table in use, None before one. pairs: what is known of the hand-off
    between workers."""

    def __init__(
        self,
        in_flight: Callable[[], Mapping[str, int]],
        waiting: Callable[[], Mapping[str, int]],
        table_version: Callable[[], int | None],
        pairs: Callable[[], Mapping[Pair, PairReport]],
    ) -> None:
        registry = self._registry = CollectorRegistry(auto_describe=True)
        self.requests = Counter(
            "tandem_router_requests",
            "Closed requests by outcome: completed, failed, rejected, cancelled.",
            ["deployment", "outcome"],
            registry=registry,
        )
        self.refusals = Counter(
            "tandem_router_refusals", "Error answers by HTTP status and code.", ["status", "code"], registry=registry
        )
        self.retries = Counter(
            "tandem_router_retries", "Requests sent to another worker or pair.", ["deployment"], registry=registry
        )
        self.continuations = Counter(
            "tandem_router_continuations",
            "Answers that another worker went on with after the first token.",
            ["deployment"],
            registry=registry,
        )
        self.faults = Counter(
            "tandem_router_worker_faults",
            "Failures of workers as the router met them, by leg and code; 'lost' is no readable answer.",
            ["deployment", "leg", "code"],
            registry=registry,
        )
        self.prefills = Counter(
            "tandem_router_prefills",
            "Answers begun, by where the prompt was read: handoff or local.",
            ["deployment", "path"],
            registry=registry,
        )
        self.tokens = Counter(
            "tandem_router_tokens", "Tokens by kind: prompt, cached, output.", ["deployment", "kind"], registry=registry
        )
        self.ttft = _histogram("tandem_router_ttft_seconds", "Time to first token.", _TTFT_BUCKETS, registry)
        self.tpot = _histogram("tandem_router_tpot_seconds", "Time per output token.", _TPOT_BUCKETS, registry)
        self.first_gap = _histogram(
            "tandem_router_first_gap_seconds", "Gap between tokens 1 and 2.", _TTFT_BUCKETS, registry
        )
        self.e2e = _histogram("tandem_router_e2e_seconds", "Whole request.", _E2E_BUCKETS, registry)
        self._of_deployments = (
            *(self.requests, self.retries, self.continuations, self.faults, self.prefills, self.tokens),
            *(self.ttft, self.tpot, self.first_gap, self.e2e),
        )
        self._last_seen: dict[str, float] = {}
        registry.register(_Levels(in_flight, waiting, table_version))
        registry.register(_Pairs(pairs))

    def expose(self) -> bytes:
        return generate_latest(self._registry)

    def forget_all_but(self, deployments: Collection[str], now: float) -> None:
        """End the series of others that were last named here `TOLD_AFTER_S` ago. now: of a monotonic clock."""
        self._last_seen |= dict.fromkeys(deployments, now)
        for name in [name for name, seen in self._last_seen.items() if now - seen >= TOLD_AFTER_S]:
            del self._last_seen[name]
            for metric in self._of_deployments:
                metric.remove_by_labels({"deployment": name})


class _Levels(Collector):
    """Read when scraped, so they can't drift from what they describe."""

    def __init__(
        self,
        in_flight: Callable[[], Mapping[str, int]],
        waiting: Callable[[], Mapping[str, int]],
        table_version: Callable[[], int | None],
    ) -> None:
        self._in_flight = in_flight
        self._waiting = waiting
        self._table_version = table_version

    def collect(self) -> Iterator[Metric]:
        for name, text, read in (
            ("tandem_router_in_flight", "Requests being served.", self._in_flight),
            ("tandem_router_waiting", "Requests that wait for a worker with room.", self._waiting),
        ):
            levels = GaugeMetricFamily(name, text, labels=["deployment"])
            for deployment, level in read().items():
                levels.add_metric([deployment], level)
            yield levels
        version = self._table_version()
        if version is not None:
            yield GaugeMetricFamily(
                "tandem_router_table_version", "Version of the routing table in use.", value=version
            )


class _Pairs(Collector):
    """Only of pairs that the routing table has, so that no worker that left is seen."""

    def __init__(self, pairs: Callable[[], Mapping[Pair, PairReport]]) -> None:
        self._pairs = pairs

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels = ["deployment", "prefill_worker", "decode_worker", "transport"]
        usable = GaugeMetricFamily("tandem_router_pair_usable", "1 where KV can be handed over.", labels=labels)
        rate = GaugeMetricFamily(
            "tandem_router_pair_bytes_per_second", "Speed of a trial hand-off when the pair was new.", labels=labels
        )
        latency = GaugeMetricFamily(
            "tandem_router_pair_latency_seconds", "Round trip between the pair when it was new.", labels=labels
        )
        for pair, report in self._pairs().items():
            of = [pair.deployment, pair.prefill, pair.decode, report.transport.value if report.transport else "none"]
            usable.add_metric(of, 0 if report.problems else 1)
            if report.bytes_per_s is not None:
                rate.add_metric(of, report.bytes_per_s)
            if report.latency_s is not None:
                latency.add_metric(of, report.latency_s)
        yield from (usable, rate, latency)


def _histogram(name: str, text: str, buckets: tuple[float, ...], registry: CollectorRegistry) -> Histogram:
    return Histogram(name, text, ["deployment"], buckets=buckets, registry=registry)
