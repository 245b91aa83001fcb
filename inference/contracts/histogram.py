"""A latency histogram whose buckets are fixed for ever, so that any two merge by plain addition.

Bucket `i` covers (LOW * GROWTH**(i-1), LOW * GROWTH**i] seconds with GROWTH = 1.02, from 0.1 ms to ten minutes (788
buckets); a quantile read from it is the bucket's geometric middle, at most 1 % off. The idea of logarithmic buckets
with a relative-error bound is that of DDSketch (Masson, Rim and Lee, VLDB 2019); here without collapsing.
"""

from __future__ import annotations

import math

import msgspec

LOW_S = 1e-4
HIGH_S = 600.0
GROWTH = 1.02
_LOG_GROWTH = math.log(GROWTH)
LAST_BUCKET = math.ceil(math.log(HIGH_S / LOW_S) / _LOG_GROWTH)


def bucket_of(seconds: float) -> int:
    """The bucket that holds `seconds`; anything at or below 0.1 ms is in 0, anything above ten minutes in the last."""
    if seconds <= LOW_S:
        return 0
    return min(LAST_BUCKET, math.ceil(math.log(seconds / LOW_S) / _LOG_GROWTH - 1e-9))


def bucket_value(bucket: int) -> float:
    """The value that stands for `bucket`, in seconds."""
    return LOW_S if bucket == 0 else LOW_S * GROWTH ** (bucket - 0.5)


class Histogram(msgspec.Struct, kw_only=True):
    """Counts per bucket, sparse. Mutable: fold samples with `add`, other histograms with `merge`."""

    counts: dict[int, int] = msgspec.field(default_factory=dict)

    def add(self, seconds: float, times: int = 1) -> None:
        bucket = bucket_of(seconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + times

    def merge(self, other: Histogram) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, q: float) -> float | None:
        """Nearest-rank quantile in seconds, `q` in 0..1; None when empty (an empty window is not zero)."""
        total = self.total
        if total == 0:
            return None
        rank = max(1, math.ceil(q * total))
        for bucket in sorted(self.counts):
            rank -= self.counts[bucket]
            if rank <= 0:
                return bucket_value(bucket)
        raise AssertionError("rank lies beyond the counts")
