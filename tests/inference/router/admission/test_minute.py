"""What a sliding minute remembers, and how exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from inference.router.admission.minute import RESOLUTION_S, WINDOW_S, Minute, Moment

NOW = 1_000.0


def test_however_much_is_asked_few_moments_are_remembered() -> None:
    """One that grew with the rate took 17 MiB for a key with 1,600 requests a second."""
    minute, a_second = Minute(), 2_000
    for number in range(90 * a_second):
        now = NOW + number / a_second
        minute.drop_old(now)
        minute.add(1, now)

    assert len(minute) <= WINDOW_S / RESOLUTION_S + 1
    assert WINDOW_S * a_second <= minute.total <= (WINDOW_S + RESOLUTION_S) * a_second


def test_what_comes_apart_from_others_counts_for_a_minute_exactly() -> None:
    minute = Minute()
    for at in range(4):
        minute.add(1, NOW + at * RESOLUTION_S)

    minute.drop_old(NOW + WINDOW_S + RESOLUTION_S)
    assert minute.total == 2
    assert minute.room_in_s(1, 2, NOW + WINDOW_S + RESOLUTION_S) == RESOLUTION_S


def test_what_was_taken_back_is_not_waited_for() -> None:
    minute = Minute()
    kept, *taken_back = (minute.add(1, NOW + at) for at in range(3))
    assert kept is not None
    for moment in taken_back:
        assert moment is not None
        minute.correct(moment, 1, 0)

    assert (len(minute), minute.empty_in_s(NOW + 3)) == (1, WINDOW_S - 3)


def test_what_has_left_the_minute_is_not_put_right() -> None:
    minute = Minute()
    moment = minute.add(5, NOW)
    assert moment is not None
    minute.drop_old(NOW + WINDOW_S)
    minute.correct(moment, 5, 7)
    minute.add(1, NOW + WINDOW_S)
    minute.correct(moment, 5, 7)
    assert minute.total == 1


def test_nothing_is_not_remembered() -> None:
    minute = Minute()
    assert minute.add(0, NOW) is None
    assert not len(minute)


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(1, 9), st.one_of(st.none(), st.integers(0, 9))), max_size=80))
def test_what_counts_is_at_least_that_of_a_minute_and_at_most_a_resolution_late(
    steps: list[tuple[int, int, int | None]],
) -> None:
    """Steps: a pause in 64ths of a second (one in eight is long), an amount, and what the last but one really was."""
    minute, now, amounts = Minute(), NOW, dict[int, tuple[float, int]]()
    unsettled: list[tuple[int, Moment]] = []
    for number, (pause, amount, really) in enumerate(steps):
        now += pause / 64 * (40 if pause % 8 == 7 else 1)
        minute.drop_old(now)
        moment = minute.add(amount, now)
        assert moment is not None
        amounts[number] = now, amount
        if really is not None and unsettled:
            settled, where = unsettled.pop()
            at, was = amounts[settled]
            minute.correct(where, was, really)
            amounts[settled] = at, really if at > now - WINDOW_S else max(was, really)  # it may just have left
        unsettled.append((number, moment))

        def within(seconds: float, at: float = now) -> int:
            return sum(amount for came, amount in amounts.values() if came > at - seconds)

        assert within(WINDOW_S) <= minute.total <= within(WINDOW_S + RESOLUTION_S)
        wait = minute.room_in_s(9, 20, now)
        assert within(WINDOW_S, now + wait) + 9 <= 20
        assert wait <= WINDOW_S
