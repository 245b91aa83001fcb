"""Reports of many nodes at once: few queries, and nothing written or shown that did not change."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.fleet.credentials import Received
from controlplane.fleet.models import Device, Node, NodeWeights
from controlplane.fleet.reports import MEASURED_PER_S, Recorded, nodes_record_reports
from inference.contracts.console import NodeChanged
from inference.contracts.reports import WeightsReport
from inference.contracts.states import FetchState, NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import joined, report, slot

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]

NAMES = ("alpha", "beta", "gamma", "delta")


class Fleet:
    """Nodes that report together."""

    def __init__(self, now: Clock, outbox: Outbox, commit: DjangoCaptureOnCommitCallbacks) -> None:
        self.now, self.outbox, self.commit = now, outbox, commit
        self.nodes = [joined(hostname=name) for name in NAMES]
        self.sequence = 0

    def report(self, count: int = len(NAMES), **changes: Any) -> list[Recorded]:
        self.sequence += 1
        received = [
            Received(report(node, sequence=self.sequence, **changes), self.now()) for node in self.nodes[:count]
        ]
        self.outbox.events.clear()
        with self.commit(execute=True):
            return nodes_record_reports(received)

    def queries(self, count: int, **changes: Any) -> int:
        with CaptureQueriesContext(
            connection,
        ) as caught:
            self.report(count, **changes)
        return len(caught)

    def shown(self) -> list[str]:
        return [event.node.name for event in self.outbox.events if isinstance(event, NodeChanged)]


@pytest.fixture
def fleet(
    now: Clock, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks, settings: Settings
) -> Fleet:
    settings.MEASURES_INTERVAL_S = 5.0
    fleet = Fleet(now, outbox, django_capture_on_commit_callbacks)
    fleet.report()
    return fleet


def test_the_number_of_queries_does_not_depend_on_the_number_of_nodes(fleet: Fleet) -> None:
    for changes in ({}, {"devices": (slot(0), slot(1), slot(2))}, {"driver": "570.2"}):
        fleet.report(**changes)
        assert fleet.queries(1, **changes) == fleet.queries(4, **changes)


def test_a_report_without_news_costs_next_to_nothing_and_shows_nothing(fleet: Fleet) -> None:
    fleet.now.advance(2)
    assert fleet.queries(4, devices=(slot(0, utilization=0.9), slot(1))) <= 6, "transaction, lock, count, one upsert"
    assert fleet.shown() == []
    assert set(Node.objects.values_list("last_report_at", flat=True)) == {fleet.now()}
    assert not Device.objects.filter(utilization=0.9).exists()


def test_measurements_are_written_and_shown_every_few_seconds(fleet: Fleet) -> None:
    for _ in range(5):
        fleet.now.advance(2)
        fleet.report(devices=(slot(0, utilization=0.9), slot(1)))
        if fleet.shown():
            break
    assert sorted(fleet.shown()) == sorted(NAMES)
    assert fleet.now().second == 6
    assert Device.objects.filter(device_id="cpu-0", utilization=0.9).count() == len(NAMES)


def test_in_a_large_fleet_less_often(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.fleet.reports.MEASURED_PER_S", MEASURED_PER_S / 250)
    for _ in range(9):
        fleet.now.advance(2)
        fleet.report(devices=(slot(0, utilization=0.9), slot(1)))
        assert fleet.shown() == []
    fleet.now.advance(2)
    fleet.report()
    assert sorted(fleet.shown()) == sorted(NAMES)


def test_after_our_clock_went_back_measurements_go_on(fleet: Fleet) -> None:
    fleet.now.advance(-3600)
    fleet.report(devices=(slot(0, utilization=0.9), slot(1)))
    assert Device.objects.filter(utilization=0.9).exists()


@pytest.mark.parametrize(
    ("changes", "devices_changed"),
    [
        ({"devices": (slot(0), slot(1, fault="XID 79: fell off the bus"))}, True),
        ({"devices": (slot(0),)}, True),
        ({"driver": "570.2"}, False),
        ({"engines": {"native": "2"}}, False),
        ({"observed_generation": 4}, False),
    ],
)
def test_news_are_written_and_shown_at_once(fleet: Fleet, changes: dict[str, Any], devices_changed: bool) -> None:
    fleet.now.advance(0.5)
    [recorded] = fleet.report(1, **changes)
    assert fleet.shown() == ["alpha"]
    assert recorded.devices_changed == devices_changed


def test_a_node_that_is_heard_again_offers_its_devices_again(fleet: Fleet) -> None:
    Node.objects.filter(name="beta").update(phase=NodePhase.LOST)
    changed = {recorded.node.name for recorded in fleet.report() if recorded.devices_changed}
    assert changed == {"beta"}
    assert "beta" in fleet.shown()


def test_of_several_reports_of_one_node_the_newest_counts(fleet: Fleet, now: Clock) -> None:
    node = fleet.nodes[0]
    received = [Received(report(node, sequence=number, memory_used=number), now()) for number in (11, 13, 12)]
    [recorded] = nodes_record_reports(received)
    assert recorded.report.sequence == 13
    assert Node.objects.get(pk=node.pk).memory_used == 13


def test_what_is_wanted_of_a_node_is_never_overwritten_by_a_report(fleet: Fleet) -> None:
    wanted = {"desired": "cordoned", "labels": ["rack=r7"], "generation": 9, "cordon_reason": "fan"}
    Node.objects.filter(name="alpha").update(**wanted)
    fleet.report(driver="570.3")
    assert Node.objects.filter(name="alpha").values(*wanted).get() == wanted


def test_what_an_operator_wants_of_a_device_is_never_overwritten_either(fleet: Fleet) -> None:
    wanted = {"labels": ["fast"], "maintenance": True, "maintenance_note": "fan", "reserved_for": "chat"}
    Device.objects.filter(device_id="cpu-0").update(**wanted)
    fleet.report(devices=(slot(0, name="renamed"), slot(1)))
    assert Device.objects.filter(node__name="alpha", device_id="cpu-0").values(*wanted).get() == wanted


@pytest.mark.parametrize("offset", [600.0, -600.0, 0.0])
def test_the_offset_of_a_clock_is_shown_and_decides_nothing(fleet: Fleet, offset: float) -> None:
    """F14."""
    fleet.report(1, clock=fleet.now().timestamp() + offset, driver="570.2")
    node = Node.objects.get(name="alpha")
    assert node.clock_offset_s == offset
    assert node.phase == NodePhase.READY
    [event] = fleet.outbox.events
    assert isinstance(event, NodeChanged)
    warned = [warning for warning in event.node.warnings if "clock" in warning]
    assert len(warned) == (offset != 0)
    assert all("600 s" in warning for warning in warned)


def test_a_node_that_tells_no_clock_has_an_unknown_offset_not_none(fleet: Fleet) -> None:
    assert Node.objects.get(name="alpha").clock_offset_s is None


def test_weights_follow_the_report_and_what_is_wanted_stays(fleet: Fleet) -> None:
    node = fleet.nodes[0]
    NodeWeights.objects.create(node=node, path="m", revision="1", wanted=True)

    def states(*reports: WeightsReport) -> list[tuple[str, str, bool]]:
        fleet.report(1, weights=reports)
        return list(NodeWeights.objects.filter(node=node).values_list("path", "state", "wanted"))

    fetching = WeightsReport(path="m", revision="1", state=FetchState.FETCHING, size_bytes=10, fetched_bytes=4)
    other = WeightsReport(path="other", revision="", state=FetchState.PRESENT)
    assert states(fetching, other) == [("m", "fetching", True), ("other", "present", False)]
    assert states() == [("m", "wanted", True)], "gone from the node, and still wanted there"
