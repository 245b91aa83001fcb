"""What operators want of nodes and devices."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.core.errors import Conflict
from controlplane.fleet.desired import MOVES, node_desire, node_retire
from controlplane.fleet.joining import join_token_create, node_join
from controlplane.fleet.models import Device, JoinToken, Node
from controlplane.fleet.reports import node_record_report
from controlplane.operations.models import Operation
from inference.contracts.console import NodeChanged
from inference.contracts.states import NodeDesired, OperationState
from tests.control.conftest import OPERATOR, Clock, Outbox
from tests.control.fleet.messages import hello, joined, report, slot

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def node() -> Node:
    return joined()


def post(api: APIClient, node: Node, verb: str, query: str = "", **body: Any):
    return api.post(f"/api/v1/nodes/{node.pk}/{verb}{query}", body, format="json")


def patch(api: APIClient, path: str, query: str = "", **body: Any):
    return api.patch(f"/api/v1/{path}{query}", body, format="json")


@pytest.mark.parametrize("before", NodeDesired)
@pytest.mark.parametrize("after", NodeDesired)
def test_only_the_moves_of_the_diagram_are_made(node: Node, before: NodeDesired, after: NodeDesired) -> None:
    Node.objects.update(desired=before)
    if after in MOVES[before] or after == before:
        node_desire(node.pk, after)
        assert Node.objects.get().desired == after
        return
    with pytest.raises(Conflict, match="alpha"):
        node_desire(node.pk, after)
    assert Node.objects.get().desired == before


def test_a_cordon_says_why_and_is_done_at_once(api: APIClient, node: Node) -> None:
    answer = post(api, node, "cordon", reason="fan is loud")

    assert answer.status_code == 200, answer.content
    assert (answer.json()["node"]["desired"], answer.json()["node"]["cordon_reason"]) == ("cordoned", "fan is loud")
    operation = answer.json()["operation"]
    assert (operation["state"], operation["title"], operation["requested_by"]) == (
        "succeeded",
        "Cordon alpha",
        OPERATOR,
    )
    assert (operation["before"], operation["after"]) == ("active", "cordoned")


def test_an_uncordon_makes_it_active_and_forgets_the_reason(api: APIClient, node: Node) -> None:
    post(api, node, "cordon", reason="fan is loud")
    shown = post(api, node, "uncordon").json()["node"]
    assert (shown["desired"], shown["cordon_reason"]) == ("active", "")


def test_consoles_and_the_audit_trail_hear_of_it(
    api: APIClient, node: Node, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        post(api, node, "cordon", reason="fan")
    [event] = [event for event in outbox.events if isinstance(event, NodeChanged)]
    assert event.node.desired == NodeDesired.CORDONED
    entry = AuditEntry.objects.get(action="node.cordon")
    assert (entry.actor, entry.before, entry.after, entry.reason) == (
        OPERATOR,
        {"desired": "active"},
        {"desired": "cordoned"},
        "fan",
    )
    post(api, node, "uncordon", reason="new fan")
    assert AuditEntry.objects.get(action="node.uncordon").reason == "new fan"


def test_a_trial_of_a_cordon_changes_nothing(api: APIClient, node: Node) -> None:
    answer = post(api, node, "cordon", "?dry_run=true")
    assert answer.json()["node"]["desired"] == "cordoned"
    assert Node.objects.get().desired == NodeDesired.ACTIVE
    assert not Operation.objects.exists()


def test_nothing_is_wanted_of_a_retired_node_any_more(api: APIClient, node: Node) -> None:
    node_retire(node.pk)
    for verb in ("cordon", "uncordon"):
        refused = post(api, node, verb)
        assert (refused.status_code, refused.json()["code"]) == (409, "node_retired")
        assert "new node" in refused.json()["detail"]
    assert not Operation.objects.filter(state=OperationState.RUNNING).exists()


def test_a_node_is_retired_once(node: Node, now: Clock) -> None:
    first = node_retire(node.pk).retired_at
    now.advance(60)
    assert node_retire(node.pk).retired_at == first


def test_labels_replace_those_before_and_find_the_node(api: APIClient, node: Node) -> None:
    joined(hostname="beta")
    assert patch(api, f"nodes/{node.pk}", labels=["rack=r7", "fast", "fast"]).json()["labels"] == ["fast", "rack=r7"]
    patch(api, f"nodes/{node.pk}", labels=["rack=r77"])

    def found(query: str) -> list[str]:
        return [each["name"] for each in api.get(f"/api/v1/nodes?{query}").json()["items"]]

    assert found("label=rack=r77") == ["alpha"]
    assert found("label=rack=r7") == []
    assert found("label=%25") == []
    assert found("name_contains=ET") == ["beta"]
    assert found("desired=active") == ["alpha", "beta"]
    assert found("phase=ready") == []
    assert found("order=-name") == ["beta", "alpha"]


@pytest.mark.parametrize("label", ["", "a b", "=x", "a=", "-a", "a\n", 'a"b', "é", "x" * 101, "a=b=c"])
def test_what_is_no_label_is_refused(api: APIClient, node: Node, label: str) -> None:
    answer = patch(api, f"nodes/{node.pk}", labels=[label])
    assert (answer.status_code, answer.json()["field"]) == (400, "labels")


def test_a_device_is_put_into_maintenance_and_what_is_not_given_stays(api: APIClient, node: Node) -> None:
    device = Device.objects.get(device_id="cpu-0")
    patch(api, f"devices/{device.pk}", labels=["fast"], reserved_for="chat")
    shown = patch(api, f"devices/{device.pk}", maintenance=True, maintenance_note="fan").json()
    assert (shown["id"], shown["maintenance"], shown["maintenance_note"]) == (device.pk, True, "fan")
    assert (shown["labels"], shown["reserved_for"]) == (["fast"], "chat")
    assert patch(api, f"devices/{device.pk}", maintenance=False).json()["maintenance_note"] == ""


def test_a_device_is_changed_only_as_it_was_seen(api: APIClient, node: Node) -> None:
    path = f"/api/v1/devices/{Device.objects.get(device_id='cpu-0').pk}"
    seen = api.get(path)["ETag"]
    assert api.patch(path, {"maintenance": True}, format="json", headers={"If-Match": seen}).status_code == 200
    assert api.patch(path, {"labels": []}, format="json", headers={"If-Match": seen}).status_code == 412


def test_a_device_that_is_gone_is_forgotten_and_one_that_is_there_is_not(
    api: APIClient, node: Node, now: Clock
) -> None:
    node_record_report(report(node, devices=(slot(1),)), received_at=now())
    gone, there = (Device.objects.get(device_id=name).pk for name in ("cpu-0", "cpu-1"))

    assert api.delete(f"/api/v1/devices/{there}").json()["code"] == "device_present"
    assert api.delete(f"/api/v1/devices/{gone}").status_code == 204
    assert api.delete(f"/api/v1/devices/{gone}").status_code == 404
    assert list(Device.objects.values_list("device_id", flat=True)) == ["cpu-1"]


def test_a_missing_device_that_an_operator_wants_something_of_is_shown(api: APIClient, node: Node, now: Clock) -> None:
    Device.objects.filter(device_id="cpu-0").update(maintenance=True)
    node_record_report(report(node, devices=()), received_at=now())
    [shown] = api.get(f"/api/v1/nodes/{node.pk}").json()["devices"]
    assert (shown["device_id"], shown["missing"]) == ("cpu-0", True)


def test_open_tokens_are_listed_without_the_tokens_and_can_be_revoked(api: APIClient, now: Clock) -> None:
    issued = [join_token_create(created_by="ada", note=note) for note in ("used", "open", "old")]
    node_join(token=issued[0].raw, hello=hello(), remote_address="")
    JoinToken.objects.filter(note="old").update(expires_at=now())

    [listed] = api.get("/api/v1/join-tokens").json()["items"]
    assert (listed["note"], listed["created_by"], listed["expires_at"]) == ("open", "ada", "2026-03-01T13:00:00.000Z")
    assert all(each.raw not in str(listed) and each.row.digest not in str(listed) for each in issued)
    for each, status in ((issued[1], 204), (issued[1], 404), (issued[0], 404), (issued[2], 404)):
        assert api.delete(f"/api/v1/join-tokens/{each.row.pk}").status_code == status
    assert api.get("/api/v1/join-tokens").json()["items"] == []
