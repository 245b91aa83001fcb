from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.fleet.models import Node, Watch
from controlplane.fleet.services import node_record_report, nodes_mark_lost
from inference.contracts.console import NodeChanged
from inference.contracts.states import NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import joined, report
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

LIMIT_S = 20.0
SWEEP_S = 5.0


@pytest.fixture(autouse=True)
def timers(settings: Settings) -> None:
    settings.NODE_LOST_AFTER_S = LIMIT_S
    settings.SWEEP_INTERVAL_S = SWEEP_S


class Fleet:
    """Two nodes whose reports and our sweeps a test lets run or stop."""

    def __init__(self, now: Clock) -> None:
        self.now = now
        self.nodes = {name: joined(hostname=name) for name in ("alpha", "beta")}
        self.sequence = 0

    def pass_time(self, seconds: float, *, heard: tuple[str, ...] = (), swept: bool = True) -> list[str]:
        """Names of nodes that were lost in these seconds."""
        lost = []
        for _ in range(int(seconds / SWEEP_S)):
            self.now.advance(SWEEP_S)
            self.report(*heard)
            if swept:
                lost += [node.name for node in nodes_mark_lost()]
        return lost

    def report(self, *names: str) -> None:
        self.sequence += 1
        for name in names:
            assert node_record_report(report(self.nodes[name], sequence=self.sequence), received_at=self.now())

    def phases(self) -> dict[str, str]:
        return dict(Node.objects.values_list("name", "phase"))


@pytest.fixture
def fleet(now: Clock) -> Fleet:
    fleet = Fleet(now)
    fleet.report("alpha", "beta")
    fleet.pass_time(60, heard=("alpha", "beta"))
    return fleet


def test_a_silent_node_is_lost_once_and_the_other_stays(fleet: Fleet) -> None:
    assert fleet.pass_time(LIMIT_S, heard=("alpha",)) == []
    assert fleet.pass_time(60, heard=("alpha",)) == ["beta"]
    assert fleet.phases() == {"alpha": NodePhase.READY, "beta": NodePhase.LOST}


def test_the_only_node_can_be_lost_too(now: Clock) -> None:
    fleet = Fleet(now)
    fleet.report("alpha")
    fleet.pass_time(60, heard=("alpha",))

    assert fleet.pass_time(LIMIT_S + SWEEP_S) == ["alpha"]


def test_a_node_that_never_reported_is_joining_not_lost(now: Clock) -> None:
    fleet = Fleet(now)

    assert fleet.pass_time(600) == []
    assert set(fleet.phases().values()) == {NodePhase.JOINING}


def test_consoles_are_told(
    fleet: Fleet, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    fleet.pass_time(LIMIT_S)
    with django_capture_on_commit_callbacks(execute=True):
        fleet.pass_time(SWEEP_S)

    events = [event for event in outbox.events if isinstance(event, NodeChanged)]
    assert {(event.node.name, event.node.phase) for event in events} == {
        ("alpha", NodePhase.LOST),
        ("beta", NodePhase.LOST),
    }


@pytest.mark.parametrize("away_s", [15.0, 30.0, 600.0])
def test_after_a_pause_of_the_control_plane_nobody_is_lost_who_comes_back(fleet: Fleet, away_s: float) -> None:
    """F12: Redis away, or the control plane stopped. Nothing was heard, so nothing is known."""
    assert fleet.pass_time(away_s, swept=False) == []
    assert fleet.pass_time(10) == [], "nodes need a moment to reconnect"
    assert fleet.pass_time(60, heard=("alpha", "beta")) == []


def test_nobody_is_lost_whose_reports_wait_to_be_read(fleet: Fleet, now: Clock) -> None:
    """The control plane has more to do than it can: what it reads is ever older. Silence counts up to what it has
    read."""
    for late in range(0, 120, 5):
        now.advance(5)
        assert nodes_mark_lost(read_to=now() - timedelta(seconds=late)) == []


def test_a_silent_node_is_lost_by_a_late_sweep_too(fleet: Fleet, now: Clock) -> None:
    lost = []
    for _ in range(0, int(LIMIT_S) + 20, 5):
        now.advance(5)
        lost += [node.name for node in nodes_mark_lost(read_to=now() - timedelta(seconds=10))]
    assert lost == ["alpha", "beta"]


def test_after_a_pause_a_node_that_does_not_come_back_is_lost_a_limit_later(fleet: Fleet) -> None:
    fleet.pass_time(600, swept=False)

    assert fleet.pass_time(LIMIT_S, heard=("alpha",)) == []
    assert fleet.pass_time(10, heard=("alpha",)) == ["beta"]


def test_nobody_is_lost_in_the_first_sweeps_of_a_new_installation(now: Clock) -> None:
    fleet = Fleet(now)
    fleet.report("alpha", "beta")
    now.advance(3600)

    assert nodes_mark_lost() == []
    assert fleet.pass_time(LIMIT_S) == []
    assert fleet.pass_time(SWEEP_S) == ["alpha", "beta"]


def test_a_node_whose_clock_is_wrong_is_fine(fleet: Fleet) -> None:
    """F14: reports carry no time at all; only their arrival counts."""
    assert not any("time" in field or field.endswith("_at") for field in report(fleet.nodes["alpha"]).__struct_fields__)
    assert fleet.pass_time(600, heard=("alpha", "beta")) == []


@pytest.mark.django_db(transaction=True)
def test_two_sweeps_at_once_lose_a_node_once(fleet: Fleet, outbox: Outbox) -> None:
    fleet.pass_time(LIMIT_S, heard=("alpha",))
    fleet.now.advance(SWEEP_S)
    outbox.events.clear()

    lost = at_once(*[lambda: [node.name for node in nodes_mark_lost()]] * 2)

    assert sorted(lost, key=str) == [["beta"], []], lost
    assert len(outbox.events) == 1
    assert Watch.objects.count() == 1
