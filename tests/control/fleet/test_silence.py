"""The rules of loss, with no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from controlplane.fleet.silence import is_silent, watching_since

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LIMIT = timedelta(seconds=20)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_silence_longer_than_the_limit_is_silence() -> None:
    assert not is_silent(last_heard=at(0), since=at(-100), now=at(20), limit=LIMIT)
    assert is_silent(last_heard=at(0), since=at(-100), now=at(20.1), limit=LIMIT)


def test_silence_counts_only_while_somebody_listened() -> None:
    assert not is_silent(last_heard=at(-1000), since=at(0), now=at(20), limit=LIMIT)
    assert is_silent(last_heard=at(-1000), since=at(0), now=at(21), limit=LIMIT)


def test_sweeps_in_time_keep_the_watch() -> None:
    assert watching_since(since=at(-100), swept_at=at(0), now=at(10), limit=LIMIT) == at(-100)


def test_a_gap_of_more_than_half_the_limit_begins_a_new_watch() -> None:
    assert watching_since(since=at(-100), swept_at=at(0), now=at(10.5), limit=LIMIT) == at(10.5)


def test_a_clock_that_went_back_begins_a_new_watch() -> None:
    assert watching_since(since=at(-100), swept_at=at(0), now=at(-600), limit=LIMIT) == at(-600)


def test_a_node_heard_before_the_clock_went_back_is_not_taken_as_heard_for_ever() -> None:
    assert not is_silent(last_heard=at(600), since=at(0), now=at(20), limit=LIMIT)
    assert is_silent(last_heard=at(600), since=at(0), now=at(21), limit=LIMIT)


def test_a_report_that_comes_while_the_sweep_looks_is_not_taken_for_one_of_a_clock_that_went_back() -> None:
    assert not is_silent(last_heard=at(0.5), since=at(-1000), now=at(0), limit=LIMIT)
    assert not is_silent(last_heard=at(20), since=at(-1000), now=at(0), limit=LIMIT)
    assert is_silent(last_heard=at(20.1), since=at(-1000), now=at(0), limit=LIMIT)


@given(
    gaps=st.lists(st.floats(min_value=-900, max_value=900), min_size=1, max_size=30),
    reconnect=st.floats(min_value=0, max_value=9),
)
def test_a_node_that_reports_whenever_it_can_is_never_lost(gaps: list[float], reconnect: float) -> None:
    """Whatever the pauses between sweeps and the jumps of our clock: it needs `reconnect` to be heard after each."""
    swept_at, since = at(0), at(0)
    heard_at = swept_at
    for gap in gaps:
        now = swept_at + timedelta(seconds=gap)
        for moment in (now, now + timedelta(seconds=reconnect)):
            since = watching_since(since=since, swept_at=swept_at, now=moment, limit=LIMIT)
            assert not is_silent(last_heard=heard_at, since=since, now=moment, limit=LIMIT)
            swept_at = moment
        heard_at = swept_at
