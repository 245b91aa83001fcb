from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from inference.agent.control.reporter import Reporter, SendFailed
from inference.contracts.codec import decode
from inference.contracts.reports import NodeReport
from tests.inference.agent.node_under_test import wait_for


class Line:
    """A way out for reports that can be cut, or made to hang."""

    def __init__(self) -> None:
        self.sequence = 0
        self.arrived: list[int] = []
        self.tries = 0
        self.is_cut = False
        self.free = threading.Event()
        self.free.set()

    def build(self) -> NodeReport:
        self.sequence += 1
        return NodeReport(
            node_id="n",
            boot_id="b",
            sequence=self.sequence,
            observed_generation=0,
            hostname="h",
            address="a",
            agent_version="1",
            devices=(),
            workers=(),
            cpu_cores=1,
            memory_total=1,
            memory_used=1,
        )

    def send(self, text: str) -> None:
        self.tries += 1
        self.free.wait(20)
        if self.is_cut:
            raise SendFailed("cut")
        self.arrived.append(decode(text, NodeReport).sequence)


@pytest.fixture
def line() -> Line:
    return Line()


def reporter(line: Line, *, interval_s: float, debounce_s: float = 0.02) -> Reporter:
    return Reporter(build=line.build, send=line.send, interval_s=lambda: interval_s, debounce_s=debounce_s)


@pytest.fixture
def rare(line: Line) -> Iterator[Reporter]:
    made = reporter(line, interval_s=600)
    made.start()
    wait_for(lambda: line.arrived == [1])
    yield made
    made.close(10)


def test_reports_come_at_a_steady_pace(line: Line) -> None:
    made = reporter(line, interval_s=0.02)
    made.start()
    wait_for(lambda: len(line.arrived) >= 3)
    made.close(10)


def test_a_change_is_reported_at_once_and_many_changes_as_one(line: Line, rare: Reporter) -> None:
    for _ in range(100):
        rare.changed()
    wait_for(lambda: len(line.arrived) >= 2)
    assert len(line.arrived) <= 3


def test_a_change_never_waits_for_a_hanging_send_and_only_the_newest_is_sent_after(line: Line, rare: Reporter) -> None:
    line.free.clear()
    rare.changed()
    wait_for(lambda: line.tries == 2)
    for _ in range(100):
        rare.changed()
    line.free.set()
    wait_for(lambda: len(line.arrived) >= 3)
    assert line.arrived == [1, 2, 3], "one report for all that happened meanwhile"


def test_what_could_not_be_sent_is_superseded_and_not_sent_late(line: Line, rare: Reporter) -> None:
    line.is_cut = True
    rare.changed()
    wait_for(lambda: line.tries == 2)
    line.is_cut = False
    rare.changed()
    wait_for(lambda: line.arrived == [1, 3])


def test_closing_sends_a_last_report_and_does_not_wait_for_ever(line: Line) -> None:
    made = reporter(line, interval_s=600)
    made.start()
    wait_for(lambda: line.arrived == [1])
    made.close(10)
    assert line.arrived == [1, 2]

    line.free.clear()
    stuck = reporter(line, interval_s=600)
    stuck.start()
    wait_for(lambda: line.tries == 3)
    stuck.close(0.05)
    line.free.set()


def test_nothing_is_sent_while_there_is_nothing_worth_reporting(line: Line) -> None:
    made = Reporter(build=lambda: None, send=line.send, interval_s=lambda: 0.01, debounce_s=0.01)
    made.start()
    made.close(10)
    assert line.tries == 0
