"""F24: two beats, a backlog, clocks that jump: one sweep when one is due."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from controlplane.config.celery import app
from controlplane.fleet.losing import nodes_mark_lost
from controlplane.fleet.models import Watch
from controlplane.fleet.turns import sweep_take_turn
from inference.contracts import names
from tests.control.conftest import Clock
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def interval(settings: Settings) -> None:
    settings.SWEEP_INTERVAL_S = 5.0


def test_two_beats_make_the_sweeps_of_one(now: Clock) -> None:
    taken = []
    for _ in range(6):
        taken += [sweep_take_turn(now=now()), sweep_take_turn(now=now.advance(0.1))]
        now.advance(4.9)
    assert taken == [True, False] * 6


def test_two_beats_out_of_step_sweep_no_more_often_than_every_half_interval(now: Clock) -> None:
    turns = sum(sweep_take_turn(now=now.advance(1.0)) for _ in range(30))
    assert 6 <= turns <= 12


def test_sweeps_that_piled_up_make_one(now: Clock) -> None:
    sweep_take_turn(now=now())
    now.advance(600)
    assert [sweep_take_turn(now=now.advance(0.01)) for _ in range(100)].count(True) == 1


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_jumps_stops_no_sweep(now: Clock, jump: float) -> None:
    sweep_take_turn(now=now())
    assert sweep_take_turn(now=now.advance(jump))


def test_another_interval_counts_from_the_next_sweep_on(now: Clock, settings: Settings) -> None:
    sweep_take_turn(now=now())
    settings.SWEEP_INTERVAL_S = 1.0
    assert sweep_take_turn(now=now.advance(1.0))


def test_a_turn_does_not_stand_in_for_the_watch_over_silence(now: Clock) -> None:
    sweep_take_turn(now=now())
    now.advance(600)
    sweep_take_turn(now=now())
    nodes_mark_lost()
    assert Watch.objects.get().since == now(), "nobody swept for ten minutes, so the watch begins anew"


def test_a_sweep_that_was_not_taken_in_time_is_dropped_by_the_worker() -> None:
    sweep = app.conf.beat_schedule["sweep"]
    assert sweep["task"] == names.TASK_SWEEP
    assert sweep["options"]["expires"] == 2 * sweep["schedule"].seconds


@pytest.mark.django_db(transaction=True)
def test_of_sweeps_at_the_same_moment_one_is_made(now: Clock) -> None:
    moment = now()
    results = at_once(*[lambda: sweep_take_turn(now=moment)] * 4)
    assert sorted(results, key=str) == [False, False, False, True], results
