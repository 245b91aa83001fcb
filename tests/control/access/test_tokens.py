"""Management tokens."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from controlplane.access import tokens
from controlplane.access.models import ManagementToken
from controlplane.audit.models import AuditEntry
from inference.contracts.auth import key_digest
from tests.control.access.people import ADMIN, OPERATOR, VIEWER, logged_in, person, token, with_token
from tests.control.conftest import Clock

TOKENS = "/api/v1/tokens"
LOOK = "/api/v1/keys"

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return person("ada", OPERATOR)


def make(client: APIClient, **wanted: object):
    return client.post(TOKENS, {"name": "ci", "role": "operator", **wanted}, format="json")


def test_a_token_is_shown_once_and_stored_as_a_digest_only(ada: User, now: Clock) -> None:
    client = logged_in(ada)
    made = make(client, expires_in_days=7)
    raw = made.json()["token"]

    assert made.status_code == 201
    assert raw.startswith("tdm-")
    row = ManagementToken.objects.get()
    assert row.digest == key_digest(raw)
    assert raw.startswith(row.prefix)
    assert len(row.prefix) == 10
    [listed] = client.get(TOKENS).json()["items"]
    assert listed == {name: value for name, value in made.json().items() if name != "token"}
    assert (listed["owner"], listed["role"], listed["only"]) == ("ada", "operator", None)
    assert listed["expires_at"] == "2026-03-08T12:00:00.000Z"
    assert raw not in str(vars(row)) + str(list(AuditEntry.objects.values()))


def test_a_token_writes_without_csrf_and_is_who_acted(ada: User) -> None:
    raw = make(logged_in(ada)).json()["token"]
    made = with_token(raw).post("/api/v1/keys", {"name": "made by a program"}, format="json")

    assert made.status_code == 201
    assert made.json()["created_by"] == "token ci"
    entry = AuditEntry.objects.filter(action="key.create").get()
    assert (entry.actor, entry.actor_kind, entry.address) == ("token ci", "token", "127.0.0.1")


def test_the_session_of_a_token_says_what_it_is(ada: User) -> None:
    raw = make(logged_in(ada), only=["chat"]).json()["token"]

    assert with_token(raw).get("/api/v1/session").json()["user"] == {
        "username": "token ci",
        "kind": "token",
        "role": "operator",
        "grants": {},
        "only": ["chat"],
        "local": False,
    }


@pytest.mark.parametrize("header", ["Bearer tdm-wrong", f"Bearer tdm-{'A' * 43}", "bearer tdm-", "Bearer tdm-\udcff"])
def test_a_wrong_token_is_401_even_beside_a_session(ada: User, header: str) -> None:
    client = logged_in(ada)
    answer = client.get(LOOK, headers={"Authorization": header.encode(errors="surrogateescape").decode("latin-1")})

    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert answer["WWW-Authenticate"] == "Bearer"


def test_an_ended_token_lets_nobody_in(ada: User, now: Clock) -> None:
    client = logged_in(ada)
    dated, revoked = make(client, name="dated", expires_in_days=1).json(), make(client, name="revoked").json()
    client.delete(f"{TOKENS}/{revoked['id']}")
    assert with_token(revoked["token"]).get(LOOK).status_code == 401
    assert with_token(dated["token"]).get(LOOK).status_code == 200

    now.advance(86_400)
    assert with_token(dated["token"]).get(LOOK).status_code == 401


def test_a_rotated_token_has_two_secrets_until_the_grace_ends(ada: User, now: Clock) -> None:
    client = logged_in(ada)
    first = make(client).json()
    second = client.post(f"{TOKENS}/{first['id']}/rotate", {"grace_s": 60}, format="json").json()

    assert second["id"] == first["id"]
    assert second["token"] != first["token"]
    assert second["previous_until"] == "2026-03-01T12:01:00.000Z"
    for raw in (first["token"], second["token"]):
        assert with_token(raw).get(LOOK).status_code == 200
    now.advance(60)
    assert with_token(first["token"]).get(LOOK).status_code == 401
    assert with_token(second["token"]).get(LOOK).status_code == 200


def test_a_rotation_without_grace_ends_the_old_secret_now_and_a_revoke_ends_both(ada: User) -> None:
    client = logged_in(ada)
    first = make(client).json()
    rotate = f"{TOKENS}/{first['id']}/rotate"
    second = client.post(rotate, {"grace_s": 0}, format="json").json()
    assert with_token(first["token"]).get(LOOK).status_code == 401
    third = client.post(rotate, {}, format="json").json()
    client.delete(f"{TOKENS}/{first['id']}")

    for raw in (second["token"], third["token"]):
        assert with_token(raw).get(LOOK).status_code == 401
    assert client.post(rotate, {}, format="json").json()["code"] == "ended"


@pytest.mark.parametrize("grace", [-1, 31 * 86_400])
def test_a_grace_out_of_range_is_refused(ada: User, grace: int) -> None:
    client = logged_in(ada)
    made = make(client).json()

    answer = client.post(f"{TOKENS}/{made['id']}/rotate", {"grace_s": grace}, format="json")
    assert (answer.status_code, answer.json()["field"]) == (400, "grace_s")


def test_the_last_use_is_noted_at_most_once_a_minute(ada: User, now: Clock, django_assert_num_queries) -> None:
    raw = make(logged_in(ada)).json()["token"]

    def used() -> object:
        tokens.token_use(raw)
        return ManagementToken.objects.get().last_used_at

    assert used() == now()
    first = now()
    now.advance(59)
    assert used() == first
    now.advance(1)
    assert used() == now()
    with django_assert_num_queries(2):
        tokens.token_use(raw)


def test_nobody_makes_a_token_that_may_more_than_they(ada: User) -> None:
    answer = make(logged_in(ada), role="admin")

    assert (answer.status_code, answer.json()["code"]) == (403, "role_too_high")


def test_a_higher_role_for_one_deployment_is_worth_a_token_for_it() -> None:
    client = logged_in(person("bob", VIEWER, {"chat": OPERATOR}))
    made = make(client)
    assert made.status_code == 201

    program = with_token(made.json()["token"])
    assert program.get("/api/v1/session").json()["user"]["grants"] == {"chat": "operator"}
    assert program.post("/api/v1/keys", {"name": "x"}, format="json").status_code == 403


def test_viewers_have_no_tokens() -> None:
    assert make(logged_in(person("bob")), role="viewer").status_code == 403


def test_a_token_cannot_make_another_that_outlives_it(ada: User) -> None:
    made = make(logged_in(ada)).json()
    program = with_token(made["token"])

    assert make(program, name="second").json()["code"] == "tokens_need_a_person"
    assert program.post(f"{TOKENS}/{made['id']}/rotate", {}, format="json").status_code == 403
    assert program.delete(f"{TOKENS}/{made['id']}").status_code == 403


def test_an_admins_token_makes_tokens_of_its_owner() -> None:
    root = person("root", ADMIN)
    made = make(with_token(token(ADMIN, root).raw), name="second")

    assert (made.status_code, made.json()["owner"]) == (201, "root")


def test_people_see_and_end_their_own_and_admins_all(ada: User) -> None:
    made = make(logged_in(ada)).json()
    bob, root = logged_in(person("bob", OPERATOR)), logged_in(person("root", ADMIN))

    assert bob.get(TOKENS).json()["items"] == []
    assert bob.delete(f"{TOKENS}/{made['id']}").status_code == 404
    assert [row["name"] for row in root.get(TOKENS).json()["items"]] == ["ci"]
    assert root.delete(f"{TOKENS}/{made['id']}").status_code == 204
    assert root.delete(f"{TOKENS}/{made['id']}").status_code == 204
    assert root.delete(f"{TOKENS}/{uuid4()}").status_code == 404
    assert AuditEntry.objects.filter(action="token.revoke").count() == 1


def test_a_live_name_is_of_one_token(ada: User) -> None:
    client = logged_in(ada)
    made = make(client).json()
    assert make(client).json()["code"] == "name_taken"

    client.delete(f"{TOKENS}/{made['id']}")
    assert make(client).status_code == 201


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"name": " "}, "name"),
        ({"only": []}, "only"),
        ({"only": [""]}, "only"),
        ({"only": ["x" * 101]}, "only"),
        ({"role": "king"}, "role"),
        ({"expires_in_days": 0}, "expires_in_days"),
    ],
)
def test_a_refused_token_names_the_field(ada: User, wanted: dict[str, object], field: str) -> None:
    answer = make(logged_in(ada), **wanted)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert not ManagementToken.objects.exists()


def test_the_secret_of_a_token_reaches_no_log(ada: User, caplog: pytest.LogCaptureFixture) -> None:
    raw = make(logged_in(ada)).json()["token"]
    with_token(raw).get(LOOK)
    with_token(raw + "x").get(LOOK)

    assert "token.create" in caplog.text
    assert raw not in caplog.text
