"""What a node and the control plane prove to each other with."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from controlplane.fleet.credentials import broker_password, message_args, node_key, report_read
from controlplane.fleet.desired import node_retire
from controlplane.fleet.models import Node
from controlplane.fleet.reports import nodes_record_reports
from inference.contracts import auth, codec, names
from inference.contracts.reports import NodeWelcome
from tests.control.conftest import Clock
from tests.control.fleet.messages import hello, joined, report

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


@pytest.fixture
def node() -> Node:
    return joined()


@pytest.fixture
def old_node(node: Node) -> Node:
    """One that joined under the release before: no key, the shared Redis address."""
    Node.objects.update(secured=False, scoped=None)
    node.refresh_from_db()
    return node


def signed(node: Node, **changes: object) -> tuple[str, str]:
    encoded = codec.encode_text(report(node, **changes))
    return encoded, auth.sign_message(node_key(node.pk), names.TASK_RECORD_NODE_REPORT, encoded)


def say_hello(node: Node, authorization: str | None, **changes: object):
    body = codec.encode(msgspec.structs.replace(hello(**changes), node_id=str(node.pk)))
    headers = {} if authorization is None else {"Authorization": authorization.replace("BODY", proof(node, body))}
    return Client().post("/api/v1/nodes/hello", body, content_type="application/json", headers=headers)


def proof(node: Node, body: bytes) -> str:
    return auth.node_authorization(node_key(node.pk), body)


def test_keys_and_passwords_differ_by_node_and_purpose_and_follow_the_secret(settings: Settings) -> None:
    one, other = uuid4(), uuid4()
    made = {node_key(one), node_key(other), broker_password(one), broker_password(other)}
    assert len(made) == 4
    assert node_key(one) == node_key(str(one))
    settings.NODE_SECRET = "another"
    assert node_key(one) not in made


def test_no_key_or_password_is_stored(node: Node) -> None:
    row = str(Node.objects.filter(pk=node.pk).values().get())
    assert node_key(node.pk) not in row
    assert broker_password(node.pk) not in row


def test_a_signed_report_is_taken_and_a_changed_one_is_not(node: Node, now: Clock) -> None:
    encoded, code = signed(node)
    received = report_read(encoded, code, at=now())
    assert received is not None
    assert received.signed
    assert report_read(encoded.replace("boot-a", "boot-b"), code, at=now()) is None


def test_a_code_of_another_node_or_another_kind_of_message_is_wrong(node: Node, now: Clock) -> None:
    encoded, _ = signed(node)
    foreign = auth.sign_message(node_key(uuid4()), names.TASK_RECORD_NODE_REPORT, encoded)
    other_kind = auth.sign_message(node_key(node.pk), names.TASK_APPLY_NODE_SPEC, encoded)
    by_cluster = auth.sign_message(auth.derive_token("tests-cluster-secret", "node"), "x", encoded)
    assert [report_read(encoded, code, at=now()) for code in (foreign, other_kind, by_cluster, "é")] == [None] * 4


def test_a_report_without_a_code_is_taken_only_from_a_node_that_never_used_a_key(old_node: Node, now: Clock) -> None:
    encoded, code = signed(old_node)
    assert report_read(encoded, "", at=now()) is not None
    received = report_read(encoded, code, at=now())
    assert received is not None
    nodes_record_reports([received])

    assert Node.objects.get().secured
    assert report_read(encoded, "", at=now()) is None


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"node_id": 3}'])
def test_what_is_no_report_is_dropped(text: str, now: Clock) -> None:
    assert report_read(text, "", at=now()) is None


def test_what_is_sent_to_a_node_carries_its_code_once_it_has_a_key(node: Node) -> None:
    message, code = message_args(node, names.TASK_APPLY_NODE_SPEC, "spec")
    assert auth.verify_message(node_key(node.pk), names.TASK_APPLY_NODE_SPEC, message, code)


def test_a_node_of_the_release_before_is_sent_the_message_alone(old_node: Node) -> None:
    assert message_args(old_node, names.TASK_APPLY_NODE_SPEC, "spec") == ("spec",)


def test_a_hello_by_its_own_key_is_answered_like_a_join(node: Node) -> None:
    answer = say_hello(node, "BODY", agent_version="0.2.0", driver="570.1", engines={"native": "1"})

    assert answer.status_code == 200, answer.content
    welcome = codec.decode(answer.content, NodeWelcome)
    assert (welcome.node_id, welcome.name, welcome.node_key) == (str(node.pk), "alpha", node_key(node.pk))
    node.refresh_from_db()
    assert (node.agent_version, node.driver, node.engines) == ("0.2.0", "570.1", {"native": "1"})


def test_an_upgraded_agent_gets_its_key_by_the_cluster_secret_until_it_has_used_it(old_node: Node) -> None:
    """An answer may be lost: only the node's own proof shows that it has its key."""
    by_cluster = auth.bearer("tests-cluster-secret", auth.PURPOSE_NODE_HELLO)
    for _ in range(2):
        answer = say_hello(old_node, by_cluster)
        assert codec.decode(answer.content, NodeWelcome).node_key == node_key(old_node.pk)
    assert say_hello(old_node, "BODY").status_code == 200

    refused = say_hello(old_node, by_cluster)
    assert (refused.status_code, refused.json()["code"]) == (401, "hello_unproven")


@pytest.mark.parametrize("authorization", [None, "", "Bearer x", "Node x", "Node é", "Join x"])
def test_a_hello_that_proves_nothing_is_refused(node: Node, authorization: str | None) -> None:
    answer = say_hello(node, authorization)
    assert (answer.status_code, answer.json()["code"]) == (401, "hello_unproven")


def test_a_proof_covers_exactly_its_hello(node: Node) -> None:
    stolen = proof(node, codec.encode(msgspec.structs.replace(hello(), node_id=str(node.pk))))
    assert say_hello(node, stolen).status_code == 200
    assert say_hello(node, stolen, address="10.6.6.6").status_code == 401


@pytest.mark.parametrize("node_id", ["", "no id", "5f0c1b1e-0d3c-4d4e-9a55-0e6d7d1c2b3a"])
def test_a_hello_of_no_node_of_ours_is_refused(node_id: str) -> None:
    body = codec.encode(hello(node_id=node_id))
    answer = Client().post("/api/v1/nodes/hello", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (401, "node_unknown")


def test_a_retired_node_is_told_so_and_its_reports_are_ignored(
    node: Node, now: Clock, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks():
        node_retire(node.pk)
    answer = say_hello(node, "BODY")
    assert (answer.status_code, answer.json()["code"]) == (401, "node_retired")
    received = report_read(*signed(node), at=now())
    assert received is not None
    assert nodes_record_reports([received]) == []


def test_a_retired_machine_that_joins_again_is_a_new_node(node: Node) -> None:
    node_retire(node.pk)
    again = joined()
    assert again.pk != node.pk
    assert node_key(again.pk) != node_key(node.pk)
    assert again.name == "alpha-2"
