"""The promises of the fixed-bucket histogram: at most 1 % off, merging is adding, empty is not zero."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.histogram import GROWTH, HIGH_S, LAST_BUCKET, LOW_S, Histogram, bucket_of, bucket_value

seconds = st.floats(min_value=LOW_S * 1.01, max_value=HIGH_S * 0.99)
samples = st.lists(seconds, min_size=1, max_size=200)


def histogram_of(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(seconds)
def test_a_value_is_at_most_one_percent_off(value: float) -> None:
    assert abs(bucket_value(bucket_of(value)) / value - 1) <= (math.sqrt(GROWTH) - 1) * 1.0001


@given(samples, st.sampled_from([0.01, 0.5, 0.9, 0.95, 0.99, 1.0]))
def test_a_quantile_is_the_nearest_rank_within_one_percent(values: list[float], q: float) -> None:
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    got = histogram_of(values).quantile(q)
    assert got is not None
    assert got == pytest.approx(exact, rel=0.0101)


@given(samples, samples)
def test_merging_equals_measuring_together(first: list[float], second: list[float]) -> None:
    merged = histogram_of(first)
    merged.merge(histogram_of(second))
    assert merged == histogram_of(first + second)


def test_an_empty_histogram_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram().total == 0


def test_values_beyond_the_ends_are_kept_at_the_ends() -> None:
    assert bucket_of(0.0) == 0
    assert bucket_of(-1.0) == 0
    assert bucket_of(1e9) == LAST_BUCKET
