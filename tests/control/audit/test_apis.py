"""Claims about searching the audit trail and taking it away as a file."""

from __future__ import annotations

import csv
import io
import json
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import AsyncClient
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from controlplane.audit import export
from controlplane.audit.models import AuditEntry
from controlplane.audit.services import record
from controlplane.core import principal
from controlplane.core.principal import Principal
from inference.contracts.states import PrincipalKind, UserRole
from tests.control.conftest import Clock

AUDIT = "/api/v1/audit"

pytestmark = pytest.mark.django_db


def entry(actor: str, action: str, name: str, **more: object) -> AuditEntry:
    kind = action.partition(".")[0]
    by = Principal(name=actor, kind=PrincipalKind.USER, request_id=f"r-{name}")
    with principal.acting(by), transaction.atomic():
        return record(action=action, target_kind=kind, target_id=f"{kind}-{name}", target_name=name, **more)


@pytest.fixture
def trail(now: Clock) -> None:
    """Four entries, a minute apart, from noon on."""
    entry("ada", "pool.resize", "m/decode", before={"replicas": 1}, after={"replicas": 2}, reason="Evening TRAFFIC")
    now.advance(60)
    entry("bob", "pool.resize", "m/prefill", before={"replicas": 4}, after={"replicas": 3})
    now.advance(60)
    entry("ada", "model.create", "zürich", after={"path": "/models/Zürich_1"})
    now.advance(60)
    entry("tandem", "node.retire", "n1", reason="=cmd()")


def names(api: APIClient, **query: str) -> list[str]:
    answered = api.get(f"{AUDIT}?{urlencode(query)}")
    assert answered.status_code == 200, answered.content
    return [item["target_name"] for item in answered.json()["items"]]


@pytest.mark.postgres
@pytest.mark.usefixtures("trail")
class TestSearch:
    def test_the_newest_comes_first(self, api: APIClient) -> None:
        assert names(api) == ["n1", "zürich", "m/prefill", "m/decode"]
        assert names(api, order="at")[0] == "m/decode"

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"actor": "ada"}, ["zürich", "m/decode"]),
            ({"action": "pool.resize"}, ["m/prefill", "m/decode"]),
            ({"action": "pool."}, ["m/prefill", "m/decode"]),
            ({"target_kind": "node"}, ["n1"]),
            ({"target": "m/decode"}, ["m/decode"]),
            ({"target": "pool-m/decode"}, ["m/decode"]),
            ({"request_id": "r-n1"}, ["n1"]),
            ({"text": "traffic"}, ["m/decode"]),
            ({"text": '"replicas": 3'}, ["m/prefill"]),
            ({"text": "Zürich_1"}, ["zürich"]),
            ({"text": "Zürich%1"}, []),
            ({"since": "2026-03-01T12:01:00Z", "until": "2026-03-01T12:02:00Z"}, ["m/prefill"]),
            ({"actor": "ada", "text": "replicas"}, ["m/decode"]),
        ],
    )
    def test_it_is_found_by(self, api: APIClient, query: dict[str, str], expected: list[str]) -> None:
        assert names(api, **query) == expected

    def test_it_comes_in_pages(self, api: APIClient) -> None:
        first = api.get(f"{AUDIT}?limit=3").json()
        second = api.get(f"{AUDIT}?limit=3&cursor={first['next']}").json()

        assert len(first["items"]) == 3
        assert [item["target_name"] for item in second["items"]] == ["m/decode"]

    def test_an_entry_is_shown_whole(self, api: APIClient) -> None:
        [shown] = api.get(f"{AUDIT}?target=m/decode").json()["items"]
        shown.pop("id")

        assert shown == {
            "at": "2026-03-01T12:00:00.000Z",
            "actor": "ada",
            "actor_kind": "user",
            "address": "",
            "request_id": "r-m/decode",
            "action": "pool.resize",
            "target_kind": "pool",
            "target_id": "pool-m/decode",
            "target_name": "m/decode",
            "before": {"replicas": 1},
            "after": {"replicas": 2},
            "reason": "Evening TRAFFIC",
        }


@pytest.mark.parametrize("role", [UserRole.VIEWER, UserRole.OPERATOR])
@pytest.mark.parametrize("path", [AUDIT, f"{AUDIT}/export?format=csv"])
def test_it_is_for_administrators(role: UserRole, path: str) -> None:
    client = APIClient()
    client.force_authenticate(User(username="eve"), token=Principal(name="eve", role=role))

    assert client.get(path).status_code == 403


@pytest.mark.parametrize("verb", ["post", "put", "patch", "delete"])
def test_nobody_writes_to_it(api: APIClient, verb: str) -> None:
    assert getattr(api, verb)(AUDIT).status_code == 405


# -- export --------------------------------------------------------------------------------------


async def exported(operator: User, query: str) -> tuple[str, str]:
    """Media type and content."""
    client = AsyncClient()
    await client.aforce_login(operator)
    answer = await client.get(f"{AUDIT}/export?{query}")
    assert answer.status_code == 200, answer.content
    return answer["Content-Type"], b"".join([part async for part in answer.streaming_content]).decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("trail")
class TestExport:
    async def test_as_lines_of_json_the_oldest_first(self, operator: User) -> None:
        kind, content = await exported(operator, "format=jsonl")
        lines = [json.loads(line) for line in content.splitlines()]

        assert kind == "application/jsonl"
        assert [line["target_name"] for line in lines] == ["m/decode", "m/prefill", "zürich", "n1"]
        assert lines[0]["after"] == {"replicas": 2}

    async def test_as_a_table_in_which_nothing_is_a_formula(self, operator: User) -> None:
        kind, content = await exported(operator, "format=csv")
        header, *rows = csv.reader(io.StringIO(content))

        assert kind == "text/csv; charset=utf-8"
        assert header[:4] == ["id", "at", "actor", "actor_kind"]
        assert [row[header.index("target_name")] for row in rows] == ["m/decode", "m/prefill", "zürich", "n1"]
        assert rows[3][header.index("reason")] == "'=cmd()"
        assert json.loads(rows[0][header.index("before")]) == {"replicas": 1}

    async def test_filtered_as_the_search_is(self, operator: User) -> None:
        _, content = await exported(operator, "format=jsonl&actor=bob")

        assert [json.loads(line)["target_name"] for line in content.splitlines()] == ["m/prefill"]

    async def test_in_as_many_pieces_as_it_takes(self, operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(export, "_AT_ONCE", 3)
        _, content = await exported(operator, "format=jsonl")

        assert len(content.splitlines()) == 4


@pytest.mark.django_db(transaction=True)
async def test_an_empty_trail_is_an_empty_table(operator: User) -> None:
    assert len((await exported(operator, "format=csv"))[1].splitlines()) == 1


@pytest.mark.parametrize("query", ["", "format=xml", "format=csv&limit=3", "format=csv&since=yesterday"])
def test_an_export_that_can_not_be_asked_for_is_refused(api: APIClient, query: str) -> None:
    assert api.get(f"{AUDIT}/export?{query}").status_code == 400


def test_a_page_costs_the_same_however_long_it_is(
    api: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(30):
        entry("ada", "pool.resize", f"m/{number}")

    for limit in (1, 30):
        with django_assert_max_num_queries(5):  # who asks (session, user, account, grants), and the entries
            assert len(api.get(f"{AUDIT}?limit={limit}").json()["items"]) == limit
