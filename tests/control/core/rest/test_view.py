"""Claims about what every endpoint has from its base: who may, request ids, known parameters, trial runs."""

from __future__ import annotations

import re

import pytest
import structlog
from django.contrib.auth.models import User
from django.test import TestCase
from drf_spectacular.generators import EndpointEnumerator
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEntry
from controlplane.catalog.models import Model
from controlplane.core.principal import Principal
from controlplane.core.rest.view import ControlView
from inference.contracts.states import UserRole
from tests.control.conftest import Outbox
from tests.control.core.rest.shelf import ADMIN_ONLY, BOOKS, DESK, UNDONE, Calls

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("shelf")]

BOOK = {"name": "ulysses"}


def as_principal(by: Principal) -> APIClient:
    """A client whose authentication found `by`."""
    client = APIClient()
    client.force_authenticate(User(username=by.name), token=by)
    return client


def added(api: APIClient, name: str = "ulysses", description: str = "long") -> None:
    assert api.post(BOOKS, {"name": name, "description": description}, format="json").status_code == 201


# -- who may ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "read", "write", "vault"),
    [(UserRole.VIEWER, 200, 403, 403), (UserRole.OPERATOR, 200, 201, 403), (UserRole.ADMIN, 200, 201, 200)],
)
def test_reading_needs_a_viewer_writing_an_operator_unless_the_endpoint_says_otherwise(
    role: UserRole, read: int, write: int, vault: int
) -> None:
    client = as_principal(Principal(name="eve", role=role))

    assert client.get(BOOKS).status_code == read
    assert client.post(BOOKS, BOOK, format="json").status_code == write
    assert client.get(ADMIN_ONLY).status_code == vault
    assert client.head(ADMIN_ONLY).status_code == vault
    assert client.post(ADMIN_ONLY).status_code == 200


def test_a_refusal_for_want_of_a_role_says_which() -> None:
    refused = as_principal(Principal(name="eve")).post(BOOKS, BOOK, format="json")

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert refused.json()["detail"] == "This needs the role operator, which eve does not have."


def test_a_role_granted_for_one_deployment_counts_there_only(api: APIClient) -> None:
    added(api, "hers")
    added(api, "his")
    client = as_principal(Principal(name="eve", grants={"hers": UserRole.OPERATOR}))

    assert client.patch(f"{BOOKS}/hers", {"description": "x"}, format="json").status_code == 200
    assert client.patch(f"{BOOKS}/his", {"description": "x"}, format="json").status_code == 403
    assert client.get(f"{BOOKS}/his").status_code == 200


def test_who_is_confined_to_some_deployments_sees_no_others(api: APIClient) -> None:
    added(api, "hers")
    added(api, "his")
    client = as_principal(Principal(name="eve", role=UserRole.ADMIN, only=frozenset({"hers"})))

    assert client.get(f"{BOOKS}/hers").status_code == 200
    assert client.get(f"{BOOKS}/his").status_code == 403
    assert client.post(BOOKS, BOOK, format="json").status_code == 403


def test_the_audit_says_who_from_where_in_which_request(api: APIClient) -> None:
    answered = api.post(BOOKS, BOOK, format="json", headers={"X-Request-Id": "deploy-7"}, REMOTE_ADDR="10.1.2.3")
    entry = AuditEntry.objects.get()

    assert answered["X-Request-Id"] == "deploy-7"
    assert (entry.actor, entry.actor_kind, entry.address, entry.request_id) == ("ada", "user", "10.1.2.3", "deploy-7")


def test_who_has_not_logged_in_is_told_as_anonymous() -> None:
    assert APIClient().post(DESK).json()["by"] == "anonymous"


# -- request ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [None, "", "two words", "x" * 101, "a\tb"])
def test_a_request_without_a_sane_id_gets_one(api: APIClient, sent: str | None) -> None:
    answered = api.get(BOOKS, headers={} if sent is None else {"X-Request-Id": sent})

    assert re.fullmatch(r"req-[0-9a-f]{32}", answered["X-Request-Id"])


def test_a_refusal_names_its_request(api: APIClient) -> None:
    refused = api.get(f"{BOOKS}/nothing", headers={"X-Request-Id": "r-1"})

    assert refused.json()["instance"] == "urn:tandem:request:r-1"


# -- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["dryrun=true", "dry_run=true&on_conflict=queue", "limit=5"])
def test_a_misspelt_or_unknown_parameter_of_a_write_is_refused_and_nothing_is_done(api: APIClient, query: str) -> None:
    refused = api.post(f"{BOOKS}?{query}", BOOK, format="json")

    assert (refused.status_code, refused.json()["code"]) == (400, "unknown_parameter")
    assert not Model.objects.exists()


def test_reads_know_no_trial_runs(api: APIClient) -> None:
    assert api.get(f"{BOOKS}?dry_run=true").json()["field"] == "dry_run"


# -- trial runs ------------------------------------------------------------------------------------


@pytest.mark.postgres
def test_a_trial_run_answers_as_if_and_leaves_nothing(api: APIClient, outbox: Outbox) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
        tried = api.post(f"{BOOKS}?dry_run=true", BOOK, format="json")

    assert (tried.status_code, tried["Dry-Run"], tried.json()["name"]) == (201, "true", "ulysses")
    assert not Model.objects.exists()
    assert not AuditEntry.objects.exists()
    assert (callbacks, outbox.tasks) == ([], [])


def test_a_real_run_sends_what_a_trial_run_did_not(api: APIClient, outbox: Outbox) -> None:
    with TestCase.captureOnCommitCallbacks(execute=True):
        done = api.post(f"{BOOKS}?dry_run=false", BOOK, format="json")

    assert "Dry-Run" not in done
    assert outbox.tasks == [("tests.added", ("ulysses",), None)]


def test_a_trial_run_is_refused_as_the_real_one_would_be(api: APIClient) -> None:
    assert api.post(f"{BOOKS}?dry_run=true", {"name": "cursed"}, format="json").json()["code"] == "cursed"
    assert api.delete(f"{BOOKS}/nothing?dry_run=true").status_code == 404


def test_a_trial_run_shows_no_secret(api: APIClient) -> None:
    """It is rolled back: a key that was shown would never work."""
    assert api.post(f"{BOOKS}?dry_run=true", {**BOOK, "secret": True}, format="json").json()["key"] == "***"


def test_the_log_of_a_trial_run_says_so(api: APIClient, shelf: type[Calls], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(shelf, "meanwhile", lambda: seen.append(structlog.contextvars.get_contextvars()))
    api.post(f"{BOOKS}?dry_run=true", BOOK, format="json")
    api.post(BOOKS, BOOK, format="json")

    assert [context.get("dry_run") for context in seen] == [True, None]


@pytest.mark.parametrize("asked", ["1", "yes", "True", ""])
def test_dry_run_is_true_or_false_and_nothing_else(api: APIClient, asked: str) -> None:
    refused = api.post(f"{BOOKS}?dry_run={asked}", BOOK, format="json")

    assert (refused.status_code, refused.json()["field"]) == (400, "dry_run")
    assert not Model.objects.exists()


# -- one transaction ---------------------------------------------------------------------------------


def test_a_refused_write_leaves_nothing_behind(api: APIClient) -> None:
    assert api.post(BOOKS, {"name": "cursed"}, format="json").status_code == 409
    assert not Model.objects.exists()


def test_where_something_has_to_stay_it_stays(api: APIClient) -> None:
    assert api.post(UNDONE).status_code == 409
    assert Model.objects.get().name == "trace"


@pytest.mark.parametrize("asked", [{"path": f"{UNDONE}?dry_run=true"}, {"path": UNDONE, "headers": {"If-Match": "*"}}])
def test_what_needs_a_transaction_is_refused_there(api: APIClient, asked: dict) -> None:
    assert api.post(**asked).status_code == 400
    assert not Model.objects.exists()


# -- limits --------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_413_before_it_is_read(api: APIClient) -> None:
    refused = api.post(BOOKS, b"x" * ((1 << 20) + 1), content_type="application/json")

    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")


def test_every_endpoint_has_this_base() -> None:
    for path, _, _, callback in EndpointEnumerator().get_api_endpoints():
        assert issubclass(callback.cls, ControlView), path
