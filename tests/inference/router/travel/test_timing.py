from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.generation import WorkerTimings
from inference.router.travel.timing import Stopwatch, segments

durations = st.floats(min_value=0.0, max_value=100.0)
told = st.one_of(st.none(), st.floats(min_value=-1.0, max_value=200.0))


def walked(*steps: float) -> Stopwatch:
    """received, first attempt, latest attempt, ticket, first token, first text: each so long after the one before."""
    moments = [1000.0]
    for step in steps:
        moments.append(moments[-1] + step)
    watch = Stopwatch(moments[0])
    watch.begin_attempt(moments[1])
    watch.begin_attempt(moments[2])
    watch.reserved = moments[3]
    watch.saw_tokens(1, moments[4])
    watch.first_text = moments[5]
    return watch


@given(st.tuples(durations, durations, durations, durations, durations), told, told)
def test_segments_add_up_to_the_ttft_whatever_workers_tell(
    steps: tuple[float, ...], queue: float | None, prefill: float | None
) -> None:
    watch = walked(*steps)
    parts = segments(watch, WorkerTimings(queue_s=queue, prefill_s=prefill))
    assert watch.ttft_s is not None
    assert sum(part.seconds for part in parts) == pytest.approx(watch.ttft_s, abs=1e-9)
    assert all(part.seconds >= 0 for part in parts)


def test_each_stage_has_its_name() -> None:
    parts = segments(walked(1, 2, 4, 100, 8), WorkerTimings(queue_s=16, prefill_s=32))
    assert {part.name: part.seconds for part in parts} == {
        "router": 1,
        "retry": 2,
        "reserve": 4,
        "prefill_queue": 16,
        "prefill": 32,
        "held_text": 8,
        "network": 52,
    }


def test_a_wait_for_room_is_a_stage_of_its_own_before_and_between_attempts() -> None:
    watch = Stopwatch(0.0)
    watch.waited(2.0)
    watch.begin_attempt(3.0)
    watch.waited(4.0)
    watch.begin_attempt(8.0)
    watch.reserved = watch.first_token = 9.0
    watch.first_text = 10.0
    parts = {part.name: part.seconds for part in segments(watch, WorkerTimings())}
    assert parts == {"router": 1, "queue": 6, "retry": 1, "reserve": 1, "held_text": 1, "network": 0}


def test_what_no_worker_tells_is_network_and_not_zero_time_in_a_stage() -> None:
    parts = segments(walked(1, 0, 2, 10, 0), WorkerTimings())
    assert [part.name for part in parts] == ["router", "reserve", "network"]
    assert parts[-1].seconds == 10


def test_an_answer_without_text_has_no_segments() -> None:
    watch = Stopwatch(1.0)
    watch.begin_attempt(2.0)
    watch.reserved = 3.0
    watch.saw_tokens(1, 4.0)
    assert watch.ttft_s is None
    assert segments(watch, WorkerTimings()) == ()


def test_tpot_is_one_number_per_request_and_none_for_one_token() -> None:
    watch = Stopwatch(0.0)
    watch.begin_attempt(0.0)
    assert watch.saw_tokens(1, 1.0) is None
    assert watch.tpot_s is None
    assert watch.saw_tokens(1, 1.5) == 0.5
    assert watch.saw_tokens(2, 2.5) == 1.0
    assert watch.first_gap_s == 0.5
    assert watch.tpot_s == pytest.approx(1.5 / 3)


def test_a_new_attempt_forgets_the_tokens_of_the_old_one() -> None:
    watch = Stopwatch(0.0)
    watch.begin_attempt(0.0)
    watch.saw_tokens(3, 1.0)
    watch.begin_attempt(2.0)
    assert (watch.tokens, watch.first_token, watch.first_attempt) == (0, None, 0.0)
