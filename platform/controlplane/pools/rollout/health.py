"""How a revision does, and whether that is good enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from inference.contracts.histogram import Histogram, bucket_value
from inference.contracts.rollout import RolloutPolicy
from inference.contracts.timings import Counter, Latency, Window


@dataclass(frozen=True, slots=True)
class Health:
    """requests: answered by the revision, or failed by it. error_rate: share that it failed. slo_miss_rate: share that
    took longer than promised to the first token, or per token, whichever is larger. None: not known, which is neither
    good nor bad."""

    requests: int = 0
    error_rate: float | None = None
    slo_miss_rate: float | None = None


def health_of(window: Window, *, slo_ttft_s: float | None, slo_tpot_s: float | None) -> Health:
    """Read from what one revision did since its roll-out began. A promise that was not made is not missed."""
    failed = window.counters.get(Counter.FAILED, 0)
    requests = window.counters.get(Counter.COMPLETED, 0) + failed
    misses = [
        share_above(window.latencies[latency], promised)
        for latency, promised in ((Latency.TTFT, slo_ttft_s), (Latency.TPOT, slo_tpot_s))
        if promised is not None and latency in window.latencies
    ]
    return Health(
        requests=requests,
        error_rate=failed / requests if requests else None,
        slo_miss_rate=max((miss for miss in misses if miss is not None), default=None),
    )


def share_above(histogram: Histogram, seconds: float) -> float | None:
    """Share of the samples above `seconds`, to the width of a bucket (2 %); None when there are no samples."""
    if not histogram.total:
        return None
    return sum(count for bucket, count in histogram.counts.items() if bucket_value(bucket) > seconds) / histogram.total


def what_is_wrong(health: Health, policy: RolloutPolicy, *, least: int) -> str:
    """Why the revision is not to serve on, in words; empty while nothing is, or while fewer than `least` requests
    tell."""
    if health.requests < max(1, least):
        return ""
    if health.error_rate is not None and health.error_rate > policy.max_error_rate:
        return f"{health.error_rate:.1%} of {health.requests} requests failed, more than {policy.max_error_rate:.1%}"
    if health.slo_miss_rate is not None and health.slo_miss_rate > policy.max_slo_miss_rate:
        return (
            f"{health.slo_miss_rate:.1%} of {health.requests} requests missed what is promised, more than "
            f"{policy.max_slo_miss_rate:.1%}"
        )
    return ""
