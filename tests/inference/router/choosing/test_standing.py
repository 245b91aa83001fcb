"""What is known of a worker: its load, and its pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.reports import WorkerLoad
from inference.router.choosing.standing import Standing, StepPace


def test_nothing_is_known_before_something_was_measured() -> None:
    pace = StepPace()
    pace.add(0.0, 5, 1)
    pace.add(1.0, 0, 1)
    assert (pace.at(1), pace.mean_s) == (None, None)
    assert Standing().step_with_one_more_s is None


def test_a_step_takes_longer_the_more_answers_are_written() -> None:
    pace = StepPace()
    for running in (1, 4, 8, 16, 32):
        pace.add(50 * (0.020 + 0.001 * running), 50, running)
    for running in (1, 16, 40):
        assert pace.at(running) == pytest.approx(0.020 + 0.001 * running, rel=0.02)


def test_where_the_number_of_answers_never_varied_it_is_what_was_measured() -> None:
    pace = StepPace()
    for _ in range(5):
        pace.add(0.3, 10, 4)
    assert pace.at(1) == pace.at(4) == pace.at(100) == pytest.approx(0.03)


def test_noise_at_one_load_makes_no_steep_line() -> None:
    pace = StepPace()
    for running, seconds in ((8, 0.030), (9, 0.036), (8, 0.031), (9, 0.035)):
        pace.add(seconds, 1, running)
    assert pace.at(32) < 2 * pace.at(8)


def test_the_newest_measurements_count_most() -> None:
    pace = StepPace()
    pace.add(1.0, 10, 1)
    for _ in range(200):
        pace.add(0.1, 10, 1)
    assert pace.at(1) == pytest.approx(0.01, rel=0.05)


@given(
    st.lists(
        st.tuples(st.floats(1e-5, 1e3), st.integers(1, 4000), st.integers(1, 512)),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 1000),
)
def test_it_is_never_negative_and_never_falls_with_the_load(
    measured: list[tuple[float, int, int]], running: int
) -> None:
    pace = StepPace()
    for seconds, tokens, at_once in measured:
        pace.add(seconds, tokens, at_once)
    quiet, crowded = pace.at(running), pace.at(running + 1)
    assert quiet is not None
    assert crowded is not None
    assert -1e-12 <= quiet <= crowded + 1e-12


def test_what_others_have_is_what_the_worker_told_less_what_is_ours() -> None:
    standing = Standing(answers=2, kv_tokens=100, backlog_tokens=30)
    told = WorkerLoad(
        running=4, waiting=1, waiting_tokens=50, kv_blocks_used=20, kv_blocks_total=100, kv_block_tokens=16
    )
    standing.told(told, 1.0)
    assert (standing.others_answers, standing.others_kv_tokens, standing.others_backlog_tokens) == (3, 220, 20)
    assert standing.kv_tokens_total == 1600
    standing.answers, standing.kv_tokens, standing.backlog_tokens = 9, 900, 90
    standing.told(told, 2.0)
    assert (standing.others_answers, standing.others_kv_tokens, standing.others_backlog_tokens) == (0, 0, 0)


def test_a_pace_counts_the_newest_most_and_is_unknown_before() -> None:
    pace = Standing().reading
    assert pace.each_s is None
    pace.add(0.0, 10)
    assert pace.each_s is None
    pace.add(1.0, 100)
    assert pace.each_s == pytest.approx(0.01)
    for _ in range(50):
        pace.add(2.0, 100)
    assert pace.each_s == pytest.approx(0.02, rel=0.01)
