"""Claims about how often loads are shown. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controlplane.pools.showing import WORKERS_PER_S, Turns

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL, LARGE = 1, 2
SIZES = {SMALL: 4, LARGE: 10 * WORKERS_PER_S}


def test_a_small_deployment_is_shown_every_second_and_a_large_one_less_often() -> None:
    turns = Turns()
    shown = {SMALL: 0, LARGE: 0}
    for second in range(20):
        for each in turns.due({SMALL, LARGE}, SIZES, NOON + timedelta(seconds=second)):
            shown[each] += 1

    assert shown == {SMALL: 20, LARGE: 2}


def test_what_waited_is_shown_although_nothing_new_came() -> None:
    turns = Turns()
    turns.due({LARGE}, SIZES, NOON)
    assert turns.due({LARGE}, SIZES, NOON + timedelta(seconds=1)) == set()
    assert turns.due(set(), SIZES, NOON + timedelta(seconds=10)) == {LARGE}
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
