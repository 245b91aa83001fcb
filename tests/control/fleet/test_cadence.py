"""How often nodes report, and when silence is a loss, in small and in large fleets."""

from __future__ import annotations

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.fleet import cadence
from controlplane.fleet.joining import join_token_create, node_join
from controlplane.fleet.models import Node
from controlplane.fleet.services import cadence_adjust, node_record_report, nodes_mark_lost, report_interval_s
from inference.contracts import codec, names
from inference.contracts.specs import NodeSpec
from inference.contracts.states import NodeDesired, NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import hello, joined, report

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def timers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.NODE_REPORT_INTERVAL_S = 2.0
    settings.NODE_LOST_AFTER_S = 10.0
    # Four nodes are a large fleet.
    monkeypatch.setattr(cadence, "REPORTS_PER_S", 1)


def heard(number: int) -> list[Node]:
    nodes = [joined(hostname=f"n{each}") for each in range(number)]
    Node.objects.update(phase=NodePhase.READY)
    return nodes


def told(outbox: Outbox) -> dict[str, float | None]:
    """Intervals in the specs that were sent, by node."""
    specs = [
        codec.decode(str(args[0]), NodeSpec) for task, args, _ in outbox.tasks if task == names.TASK_APPLY_NODE_SPEC
    ]
    return {spec.node_id: spec.report_interval_s for spec in specs}


def test_a_small_fleet_reports_as_often_as_is_set_and_a_large_one_less_often() -> None:
    heard(2)
    assert report_interval_s() == 2.0
    heard_more = [joined(hostname=f"more{each}") for each in range(6)]
    assert report_interval_s() == 8.0
    Node.objects.filter(pk__in=[node.pk for node in heard_more]).update(desired=NodeDesired.RETIRED)
    assert report_interval_s() == 2.0


def test_a_node_is_told_with_its_welcome() -> None:
    heard(4)
    token = join_token_create(created_by="ada").raw
    welcome = node_join(token=token, hello=hello(hostname="fifth"), remote_address="192.0.2.7")
    assert welcome.report_interval_s == 5.0
    assert Node.objects.get(pk=welcome.node_id).report_interval_s == 5.0


def test_nodes_that_joined_a_smaller_fleet_are_told_anew_and_only_they(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    nodes = heard(6)
    with django_capture_on_commit_callbacks(execute=True):
        cadence_adjust()
    # Intervals at their joins were 2, 2, 3, 4, 5 and 6 s: the last three are near enough to 6 s.
    assert told(outbox) == {str(node.pk): 6.0 for node in nodes[:3]}
    outbox.tasks.clear()
    with django_capture_on_commit_callbacks(execute=True):
        cadence_adjust()
    assert told(outbox) == {}


def test_a_fleet_that_shrank_reports_more_often_again(
    outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    nodes = heard(6)
    Node.objects.filter(pk__in=[node.pk for node in nodes[:5]]).update(
        desired=NodeDesired.RETIRED, phase=NodePhase.LOST
    )
    with django_capture_on_commit_callbacks(execute=True):
        cadence_adjust()
    assert told(outbox) == {str(nodes[5].pk): 2.0}


def test_only_some_are_told_at_once(
    outbox: Outbox,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cadence, "_TOLD_AT_ONCE", 2)
    heard(6)
    for count in (2, 1, 0):
        outbox.tasks.clear()
        with django_capture_on_commit_callbacks(execute=True):
            cadence_adjust()
        assert len(told(outbox)) == count


def test_a_node_that_was_never_told_is_left_alone(outbox: Outbox) -> None:
    heard(1)
    Node.objects.update(report_interval_s=None)
    cadence_adjust()
    assert told(outbox) == {}


@pytest.mark.parametrize(("nodes", "limit_s"), [(1, 10.0), (5, 20.0)])
def test_in_a_large_fleet_a_node_may_be_silent_for_longer(now: Clock, nodes: int, limit_s: float) -> None:
    for node in heard(nodes):
        node_record_report(report(node), received_at=now())
    nodes_mark_lost()
    for _ in range(int(limit_s)):
        now.advance(1)
        assert nodes_mark_lost() == []
    now.advance(1)
    assert len(nodes_mark_lost()) == nodes
