"""What one worker's track makes of starts that fail: how long it waits, when it gives up, what it says."""

from __future__ import annotations

import pytest

from inference.agent.config import Settings
from inference.agent.workers.process import Exit
from inference.agent.workers.track import LONGEST_REASON, Track, backoff
from inference.contracts.states import WorkerDesired, WorkerPhase
from tests.inference.agent.node_under_test import worker

SETTINGS = Settings(backoff_base_s=2, backoff_max_s=60, max_attempts=4)
NOW = 1000.0


def a_track() -> Track:
    return Track(spec=worker("w1"), desired=WorkerDesired.RUN)


def fail(track: Track, now: float, exit_code: int = 1) -> None:
    track.attempts += 1
    track.ended(Exit(exit_code), "out of memory", now, SETTINGS)


def test_f11_the_wait_doubles_up_to_a_maximum() -> None:
    assert [backoff(attempts, SETTINGS) for attempts in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]


def test_f11_count_and_next_time_are_told_until_it_is_given_up_with_the_cause() -> None:
    track, told = a_track(), []
    for _ in range(4):
        fail(track, NOW)
        report = track.report(NOW, "host", ("out of memory",))
        told.append((report.phase, report.attempts, report.next_start_s))
    assert told == [
        (WorkerPhase.BACKOFF, 1, 2),
        (WorkerPhase.BACKOFF, 2, 4),
        (WorkerPhase.BACKOFF, 3, 8),
        (WorkerPhase.FAILED, 4, None),
    ]
    assert report.reason == "exited with code 1: out of memory (given up after 4 starts)"
    assert report.log_tail == ("out of memory",)


def test_f11_a_fatal_exit_is_given_up_at_once_and_a_retry_begins_to_count_anew() -> None:
    track = a_track()
    fail(track, NOW, exit_code=3)
    assert track.phase(NOW) is WorkerPhase.FAILED
    track.retry(1)
    assert (track.attempts, track.failed, track.next_start, track.restart) == (0, None, None, 1)
    fail(track, NOW)
    assert track.report(NOW, "host", ()).attempts == 1


def test_a_start_that_waits_for_room_waits_ever_longer_and_is_never_given_up() -> None:
    track = a_track()
    for round_number in range(1, 20):
        track.wait_for_room("no room", NOW, SETTINGS)
        report = track.report(NOW, "host", ())
        assert (report.phase, report.attempts) == (WorkerPhase.BACKOFF, 0)
        assert report.next_start_s == backoff(round_number, SETTINGS)
    assert report.reason == "no room (put off 19 times)"


def test_a_cause_is_cut_to_a_bounded_length() -> None:
    track = a_track()
    track.gave_out("x" * 10_000, NOW, SETTINGS, fatal=False)
    assert len(track.report(NOW, "host", ()).reason) == LONGEST_REASON


@pytest.mark.parametrize(("code", "words"), [(-9, "was ended by SIGKILL"), (1, "exited with code 1")])
def test_how_a_process_ended_is_told(code: int, words: str) -> None:
    track = a_track()
    fail(track, NOW, code)
    assert track.reason.startswith(words)
