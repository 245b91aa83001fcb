"""Claims about who looks at deployments, and how often. Pure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from controlplane.pools.rounds import PAUSE_MAX_S, Rounds


class Planner:
    """Looks at deployments; `hold` makes the first look wait until `let_go`."""

    def __init__(self) -> None:
        self.looks: list[int] = []
        self.broken: set[int] = set()
        self.entered, self.free = threading.Event(), threading.Event()
        self.free.set()
        self.rounds = Rounds(self.look)

    def look(self, deployment_id: int) -> None:
        self.entered.set()
        assert self.free.wait(10)
        self.looks.append(deployment_id)
        if deployment_id in self.broken:
            raise ValueError("can't be planned")

    def asked_meanwhile(self, first: int, *others: int) -> None:
        """Ask for one, and for the others while it is being looked at; the others never wait."""
        self.free.clear()
        looker = threading.Thread(target=self.rounds.ask, args=(first,))
        looker.start()
        assert self.entered.wait(10)
        for each in others:
            self.rounds.ask(each)
        self.free.set()
        looker.join(10)


@pytest.fixture
def planner() -> Planner:
    return Planner()


def test_a_deployment_is_looked_at_at_once(planner: Planner) -> None:
    planner.rounds.ask(1)
    assert planner.looks == [1]


def test_what_is_asked_for_meanwhile_is_looked_at_once_and_by_the_same_thread(planner: Planner) -> None:
    planner.asked_meanwhile(1, 2, 3, 2, 2, 3)
    assert planner.looks == [1, 2, 3]


def test_what_is_asked_for_while_it_is_looked_at_is_looked_at_again(planner: Planner) -> None:
    planner.asked_meanwhile(1, 1)
    assert planner.looks == [1, 1]


def test_one_that_fails_keeps_nobody_from_being_looked_at(planner: Planner) -> None:
    planner.broken = {1}
    planner.asked_meanwhile(1, 2)
    planner.rounds.ask(3)
    assert planner.looks == [1, 2, 3]


class Hour:
    """A clock that only looks move: each takes `look_s`."""

    def __init__(self, look_s: float) -> None:
        self.look_s, self.time = look_s, 0.0
        self.looked: list[int] = []

    def look(self, deployment_id: int) -> None:
        self.looked.append(deployment_id)
        self.time += self.look_s

    def __call__(self) -> float:
        return self.time


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_news_wait_as_long_as_the_last_look_took_and_what_people_ask_for_does_not() -> None:
    hour = Hour(look_s=1.0)
    rounds = Rounds(hour.look, clock=hour)
    rounds.ask(1)
    waiting = threading.Thread(target=rounds.ask, args=(2,), kwargs={"news": True})
    waiting.start()
    until(lambda: rounds._going)
    rounds.ask(3)
    until(lambda: 3 in hour.looked)
    assert hour.looked == [1, 3], "2 has to wait until a second has passed since the end of the last look"
    hour.time += 1.0
    rounds.ask(2, news=True)
    waiting.join(10)
    assert hour.looked == [1, 3, 2]


def test_news_that_come_after_the_pause_are_looked_at_at_once() -> None:
    hour = Hour(look_s=1.0)
    rounds = Rounds(hour.look, clock=hour)
    rounds.ask(1, news=True)
    hour.time += 1.0
    rounds.ask(2, news=True)
    assert hour.looked == [1, 2]


def test_one_slow_look_is_no_reason_to_look_away() -> None:
    hour = Hour(look_s=300.0)
    rounds = Rounds(hour.look, clock=hour)
    rounds.ask(1)
    hour.time += PAUSE_MAX_S
    rounds.ask(2, news=True)
    assert hour.looked == [1, 2]
