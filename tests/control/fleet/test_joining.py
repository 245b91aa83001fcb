from __future__ import annotations

import json

import msgspec
import pytest
from django.core.management import call_command
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings
from rest_framework.test import APIClient

from controlplane.core.errors import Unauthenticated
from controlplane.fleet.credentials import broker_password, node_key
from controlplane.fleet.joining import join_token_create, node_join
from controlplane.fleet.models import Device, JoinToken, Node
from inference.contracts import codec
from inference.contracts.console import NodeChanged
from inference.contracts.reports import NodeHello, NodeWelcome
from inference.contracts.states import NodePhase
from tests.control.conftest import Clock, Outbox
from tests.control.fleet.messages import hello, joined, slot
from tests.control.races import at_once

pytestmark = [pytest.mark.django_db, pytest.mark.postgres]


def post(token: str | None, body: bytes):
    headers = {} if token is None else {"Authorization": f"Join {token}"}
    return Client().post("/api/v1/nodes/join", body, content_type="application/json", headers=headers)


@pytest.fixture
def token() -> str:
    return join_token_create(created_by="ada").raw


def test_the_console_hands_out_a_token_and_the_line_to_run(api: APIClient, settings: Settings, now: Clock) -> None:
    settings.PUBLIC_URL = "https://tandem.example"
    answer = api.post("/api/v1/join-tokens", {"note": "rack 7"}, format="json")

    assert answer.status_code == 201
    made = answer.json()
    assert made["expires_at"] == "2026-03-01T13:00:00.000Z"
    assert made["command"] == (
        f"TANDEM_JOIN_TOKEN={made['token']} "
        ".venv/bin/python -m inference.agent run --url https://tandem.example --data ./agent-data"
    )
    assert made["token"] not in str(vars(JoinToken.objects.get()))


@pytest.mark.parametrize(
    ("wanted", "field"),
    [({"ttl_s": 0}, "ttl_s"), ({"ttl_s": 10**9}, "ttl_s"), ({"ttl_s": "1h"}, "ttl_s"), ({"note": "x" * 201}, "note")],
)
def test_a_refused_token_names_the_field(api: APIClient, wanted: dict[str, object], field: str) -> None:
    answer = api.post("/api/v1/join-tokens", wanted, format="json")

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert not JoinToken.objects.exists()


def test_a_hello_with_a_token_becomes_a_node(token: str, settings: Settings) -> None:
    settings.NODE_REDIS_URL = "rediss://:pw@10.0.0.9:6379/0?ssl_cert_reqs=none"
    settings.NODE_REPORT_INTERVAL_S = 0.5
    answer = post(token, codec.encode(hello()))

    assert answer.status_code == 200
    welcome = codec.decode(answer.content, NodeWelcome)
    node = Node.objects.get()
    assert welcome == NodeWelcome(
        node_id=str(node.pk),
        name="alpha",
        redis_url=f"rediss://node-{node.pk}:{broker_password(node.pk)}@10.0.0.9:6379/0?ssl_cert_reqs=none",
        cluster_secret=settings.CLUSTER_SECRET,
        report_interval_s=0.5,
        node_key=node_key(node.pk),
    )
    assert (node.phase, node.address, node.cpu_cores) == (NodePhase.JOINING, "10.0.0.1", 4)
    assert [device.device_id for device in node.devices.all()] == ["cpu-0", "cpu-1"]
    assert JoinToken.objects.get().node == node


def test_consoles_hear_of_a_new_node(
    token: str, outbox: Outbox, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        node_join(token=token, hello=hello(), remote_address="")

    [event] = outbox.events
    assert isinstance(event, NodeChanged)
    assert event.node.last_report_at is None
    assert [device.cores for device in event.node.devices] == [(0, 1), (2, 3)]


def test_an_agent_that_does_not_know_its_address_gets_the_one_it_came_from(token: str) -> None:
    node_join(token=token, hello=hello(address=""), remote_address="192.0.2.7")

    assert Node.objects.get().address == "192.0.2.7"


def test_an_agent_that_knows_less_or_more_than_we_do_is_understood(token: str) -> None:
    newer = json.loads(codec.encode(hello())) | {"rack": "r7"}

    assert post(token, json.dumps(newer).encode()).status_code == 200


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({}, ["alpha", "alpha-2", "alpha-3"]),
        ({"name": "left"}, ["left", "left-2", "left-3"]),
        ({"hostname": "gpu 1/α"}, ["gpu-1", "gpu-1-2", "gpu-1-3"]),
        ({"hostname": "λ"}, ["node", "node-2", "node-3"]),
        ({"hostname": "h" * 255}, ["h" * 90, "h" * 90 + "-2", "h" * 90 + "-3"]),
    ],
)
def test_names_are_made_from_the_host_and_unique(wanted: dict[str, str], names: list[str]) -> None:
    assert [joined(**wanted).name for _ in range(3)] == names


def test_no_token_an_unknown_one_and_a_wrong_scheme_are_refused() -> None:
    for answer, code in (
        (post(None, codec.encode(hello())), "join_token_missing"),
        (post("tandem-join-guess", codec.encode(hello())), "join_token_unknown"),
        (post("", codec.encode(hello())), "join_token_unknown"),
        (post("tandem-join-guess", b"not even json"), "join_token_unknown"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert not Node.objects.exists()


def test_a_token_works_once(token: str) -> None:
    post(token, codec.encode(hello()))
    answer = post(token, codec.encode(hello(hostname="beta")))

    assert (answer.status_code, answer.json()["code"]) == (401, "join_token_used")
    assert Node.objects.count() == 1


def test_a_token_expires(token: str, now: Clock) -> None:
    late = join_token_create(created_by="ada", ttl_s=60).raw
    now.advance(60)
    answer = post(late, codec.encode(hello()))

    assert (answer.status_code, answer.json()["code"]) == (401, "join_token_expired")
    assert "2026-03-01T12:01:00.000Z" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"hostname": ""}, "hostname"),
        ({"devices": (slot(0), slot(0))}, "devices"),
        ({"cpu_cores": "4"}, "cpu_cores"),
        ({"devices": (slot(0, kind="tpu"),)}, "devices[0].kind"),
    ],
)
def test_a_hello_that_cannot_be_right_leaves_the_token_usable(token: str, wrong: dict[str, object], field: str) -> None:
    body = json.loads(codec.encode(hello())) | json.loads(msgspec.json.encode(wrong))
    answer = post(token, json.dumps(body).encode())

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert not Node.objects.exists()
    assert not Device.objects.exists()
    assert post(token, codec.encode(hello())).status_code == 200


def test_a_login_is_no_join_token(api: APIClient) -> None:
    answer = api.post("/api/v1/nodes/join", json.loads(codec.encode(hello())), format="json")

    assert answer.json()["code"] == "join_token_missing"


def test_the_command_line_makes_tokens_too(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("create_join_token", "--ttl", "60")
    node_join(token=capsys.readouterr().out.strip(), hello=hello(), remote_address="")

    assert Node.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_machines_with_one_token_one_joins(outbox: Outbox) -> None:
    token = join_token_create(created_by="ada").raw

    def join(greeting: NodeHello) -> NodeWelcome:
        return node_join(token=token, hello=greeting, remote_address="")

    results = at_once(lambda: join(hello(hostname="alpha")), lambda: join(hello(hostname="beta")))

    assert sorted(type(result).__name__ for result in results) == ["NodeWelcome", "Unauthenticated"], results
    [refused] = [result for result in results if isinstance(result, Unauthenticated)]
    assert refused.code == "join_token_used"
    assert Node.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_machines_of_one_name_that_join_at_once_get_names_of_their_own(outbox: Outbox) -> None:
    tokens = [join_token_create(created_by="ada").raw for _ in range(3)]
    at_once(*(lambda token=token: node_join(token=token, hello=hello(), remote_address="") for token in tokens))

    assert sorted(Node.objects.values_list("name", flat=True)) == ["alpha", "alpha-2", "alpha-3"]
