"""Claims about who looks at deployments, and how often. Pure."""

from __future__ import annotations

import threading

import pytest

from controlplane.pools.rounds import Rounds


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
