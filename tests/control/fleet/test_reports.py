from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from controlplane.fleet.models import Device, Node
from controlplane.fleet.presenters import node_views
from controlplane.fleet.selectors import node_get
from controlplane.fleet.services import node_record_report
from inference.contracts.console import NodeChanged
from inference.contracts.states import DeviceKind, NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import GIB, joined, report, slot
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def node() -> Node:
    return joined()


def record(node: Node, now: Clock, **changes: Any) -> Node | None:
    return node_record_report(report(node, **changes), received_at=now())


def test_the_first_report_makes_a_node_ready(node: Node, now: Clock) -> None:
    seen = record(node, now, observed_generation=3, memory_used=5 * GIB)

    assert seen is not None
    node.refresh_from_db()
    assert (node.phase, node.observed_generation, node.memory_used) == (NodePhase.READY, 3, 5 * GIB)
    assert node.last_report_at == now(), "arrival time by our clock: a node's own clock is never read"


def test_a_report_never_writes_what_is_wanted(node: Node, now: Clock) -> None:
    Node.objects.update(generation=7)
    record(node, now, observed_generation=3)

    node.refresh_from_db()
    assert (node.generation, node.name) == (7, "alpha")


def test_a_report_that_comes_late_or_twice_is_ignored(node: Node, now: Clock) -> None:
    record(node, now, sequence=5, memory_used=5 * GIB)
    heard = now()
    now.advance(10)
    for sequence in (4, 5):
        assert record(node, now, sequence=sequence, memory_used=1 * GIB) is None

    node.refresh_from_db()
    assert (node.sequence, node.memory_used, node.last_report_at) == (5, 5 * GIB, heard)


def test_a_restarted_agent_counts_from_the_beginning(node: Node, now: Clock) -> None:
    record(node, now, sequence=500)

    assert record(node, now, boot_id="boot-b", sequence=1) is not None
    node.refresh_from_db()
    assert (node.boot_id, node.sequence) == ("boot-b", 1)


def test_a_late_report_of_the_agent_before_the_restart_is_ignored(node: Node, now: Clock) -> None:
    record(node, now, sequence=500)
    record(node, now, boot_id="boot-b", sequence=1)

    assert record(node, now, sequence=501) is None
    assert record(node, now, boot_id="boot-b", sequence=2) is not None


@pytest.mark.parametrize("node_id", ["5f0c1b1e-0d3c-4d4e-9a55-0e6d7d1c2b3a", "not an id", ""])
def test_a_report_of_no_node_of_ours_changes_nothing(now: Clock, node_id: str) -> None:
    assert node_record_report(report(Node(pk=uuid4()), node_id=node_id), received_at=now()) is None
    assert not Node.objects.exists()


def test_a_lost_node_is_ready_again_with_its_next_report(node: Node, now: Clock) -> None:
    Node.objects.update(phase=NodePhase.LOST)
    record(node, now)

    node.refresh_from_db()
    assert node.phase == NodePhase.READY


def test_devices_are_updated_in_place(node: Node, now: Clock) -> None:
    before = {device.device_id: device.pk for device in node.devices.all()}
    record(node, now, devices=(slot(0, utilization=0.9, name="renamed"), slot(1)))

    device = Device.objects.get(device_id="cpu-0")
    assert (device.pk, device.utilization, device.name) == (before["cpu-0"], 0.9, "renamed")
    assert Device.objects.count() == 2


def test_a_device_that_is_not_reported_is_missing_and_its_measures_unknown(node: Node, now: Clock) -> None:
    record(node, now, devices=(slot(1),))

    device = Device.objects.get(device_id="cpu-0")
    assert device.missing
    assert (device.memory_used, device.utilization) == (None, None), "what was measured once is not known now"
    assert device.memory_total == 8 * GIB
    assert not Device.objects.get(device_id="cpu-1").missing


def test_a_device_that_comes_back_is_the_same_row(node: Node, now: Clock) -> None:
    pk = Device.objects.get(device_id="cpu-0").pk
    record(node, now, devices=(slot(1),))
    record(node, now, sequence=2)

    device = Device.objects.get(device_id="cpu-0")
    assert (device.pk, device.missing, device.utilization) == (pk, False, 0.5)


def test_a_node_without_devices_is_a_node(node: Node, now: Clock) -> None:
    assert record(node, now, devices=()) is not None
    assert Device.objects.filter(missing=True).count() == 2


def test_two_nodes_may_have_devices_of_one_name(node: Node, now: Clock) -> None:
    other = joined(hostname="beta")
    record(node, now, devices=(slot(0, utilization=0.1),))
    record(other, now, devices=(slot(0, utilization=0.9),))

    assert Device.objects.get(node=node, device_id="cpu-0").utilization == 0.1
    assert Device.objects.get(node=other, device_id="cpu-0").utilization == 0.9


def test_a_device_on_a_very_big_machine_fits(node: Node, now: Clock) -> None:
    cores = tuple(range(1024))
    record(node, now, devices=(slot(0, cores=cores, name="n" * 500),))

    assert Device.objects.get(device_id="cpu-0").core_numbers == cores


def test_unknown_stays_unknown_up_to_the_console(
    node: Node, now: Clock, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    gpu = slot(0, device_id="gpu-1", kind=DeviceKind.GPU, memory_used=None, utilization=None, cores=())
    with django_capture_on_commit_callbacks(execute=True):
        record(node, now, devices=(gpu,))

    [event] = outbox.events
    assert isinstance(event, NodeChanged)
    [device] = event.node.devices
    assert (device.device_id, device.memory_used, device.utilization, device.power_w) == ("gpu-1", None, None, None)


@pytest.mark.django_db(transaction=True)
def test_of_reports_handled_at_once_the_newest_wins(node: Node, now: Clock, outbox: Outbox) -> None:
    results = at_once(
        *(lambda number=number: record(node, now, sequence=number, memory_used=number) for number in range(1, 5))
    )

    assert not any(isinstance(result, Exception) for result in results), results
    node.refresh_from_db()
    assert (node.sequence, node.memory_used) == (4, 4)


def test_why_a_node_refuses_what_it_is_told_is_shown_until_it_takes_it(node: Node, now: Clock) -> None:
    fault = "generation 7 is refused: worker id '../x' is no id"
    for sequence, refused in ((1, ""), (2, fault), (3, "")):
        record(node, now, sequence=sequence, refused_spec=refused)
        shown = [warning for warning in node_views([node_get(node.pk)])[0].warnings if "as told before" in warning]
        assert shown == ([f"It goes on as told before: {fault}"] if refused else [])
