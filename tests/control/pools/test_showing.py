"""Claims about how often loads are shown. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.pools.showing import WORKERS_PER_S, Turns

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL, LARGE = 1, 2
SIZES = {SMALL: 4, LARGE: 10 * WORKERS_PER_S}


def test_in_a_small_fleet_loads_are_shown_every_second() -> None:
    turns = Turns()
    shown = [turns.due({SMALL}, {SMALL: 4}, NOON + timedelta(seconds=second / 2)) for second in range(20)]
    assert shown.count({SMALL}) == 10


def test_with_news_that_decide_something_only_its_own_size_counts() -> None:
    turns = Turns()
    shown = {SMALL: 0, LARGE: 0}
    for tenth in range(200):
        now = NOON + timedelta(seconds=tenth / 10)
        for each in turns.due({SMALL}, SIZES, now, decisive={SMALL, LARGE}):
            shown[each] += 1

    assert shown == {SMALL: 200, LARGE: 2}


def test_a_small_deployment_is_shown_with_each_news_that_decides_something() -> None:
    turns = Turns()
    assert [turns.due((), SIZES, NOON, decisive={SMALL}) for _ in range(3)] == [{SMALL}] * 3


def test_in_a_large_fleet_loads_of_a_small_deployment_are_shown_less_often_too() -> None:
    turns = Turns()
    assert turns.due({SMALL}, SIZES, NOON) == {SMALL}
    assert turns.due({SMALL}, SIZES, NOON + timedelta(seconds=9)) == set()
    assert turns.due(set(), SIZES, NOON + timedelta(seconds=11)) == {SMALL}


def test_what_waited_is_shown_although_nothing_new_came() -> None:
    turns = Turns()
    turns.due({LARGE}, SIZES, NOON)
    assert turns.due({LARGE}, SIZES, NOON + timedelta(seconds=1)) == set()
    assert turns.due(set(), SIZES, NOON + timedelta(seconds=11)) == {LARGE}
    assert turns.due(set(), SIZES, NOON + timedelta(seconds=30)) == set()


def test_a_deployment_that_is_gone_is_forgotten() -> None:
    turns = Turns()
    turns.due({LARGE}, SIZES, NOON)
    turns.due({LARGE}, SIZES, NOON)

    assert turns.due(set(), {}, NOON + timedelta(hours=1)) == set()


def test_a_clock_that_goes_back_holds_nothing_up() -> None:
    turns = Turns()
    turns.due({LARGE}, SIZES, NOON)

    assert turns.due({LARGE}, SIZES, NOON - timedelta(hours=1)) == {LARGE}
