"""Beat sends at a steady pace, whatever the clock does."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from controlplane.config.celery import app
from controlplane.config.schedule import Steady

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVERY_S = 5.0


def steady() -> Steady:
    return Steady(EVERY_S, nowfun=lambda: NOON)


@pytest.mark.parametrize(("ago_s", "left_s"), [(0.0, 5.0), (3.0, 2.0)])
def test_it_is_not_due_before_its_time(ago_s: float, left_s: float) -> None:
    found = steady().is_due(NOON - timedelta(seconds=ago_s))
    assert (found.is_due, found.next) == (False, pytest.approx(left_s))


@pytest.mark.parametrize("ago_s", [5.0, 600.0])
def test_it_is_due_when_its_time_has_come(ago_s: float) -> None:
    assert steady().is_due(NOON - timedelta(seconds=ago_s)).is_due


@pytest.mark.parametrize("ahead_s", [0.1, 600.0, 86_400.0])
def test_a_last_time_that_lies_ahead_was_read_before_the_clock_went_back(ahead_s: float) -> None:
    assert steady().is_due(NOON + timedelta(seconds=ahead_s)).is_due


def test_the_sweep_is_sent_so_and_beat_keeps_it_over_its_restarts() -> None:
    sweep = app.conf.beat_schedule["sweep"]["schedule"]
    assert isinstance(sweep, Steady)
    kept = pickle.loads(pickle.dumps(sweep))  # noqa: S301 (as beat writes its own file)
    assert (type(kept), kept.seconds) == (Steady, settings.SWEEP_INTERVAL_S)
