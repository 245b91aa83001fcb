"""F25: a write that its caller has named is done once, however often it is sent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from rest_framework.test import APIClient

from controlplane.catalog.models import Model
from controlplane.core import clock
from controlplane.core.models import IdempotentRequest
from controlplane.core.principal import Principal
from controlplane.core.rest import idempotency
from inference.contracts.states import UserRole
from tests.control.conftest import Clock
from tests.control.core.rest.shelf import BOOKS, DESK, Calls
from tests.control.races import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

BOOK = {"name": "ulysses", "description": "long"}


def send(
    client: APIClient, body: dict = BOOK, key: str = "k-1", url: str = BOOKS, method: str = "post"
) -> HttpResponse:
    return getattr(client, method)(url, body, format="json", headers={"Idempotency-Key": key})


def test_sent_again_it_is_answered_again_and_not_done_again(api: APIClient, shelf: type[Calls]) -> None:
    first, again = send(api), send(api)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert shelf.count == 1


def test_a_browser_with_its_csrf_token_may_name_its_requests(operator: User, shelf: type[Calls]) -> None:
    """The CSRF check looks into the body too."""
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(operator)
    headers = {"Idempotency-Key": "k-1", "X-CSRFToken": browser.get("/api/v1/session").json()["csrf"]}
    first, again = (browser.post(BOOKS, BOOK, format="json", headers=headers) for _ in range(2))

    assert (first.status_code, again.status_code, again["Idempotency-Replayed"]) == (201, 201, "true")
    refused = browser.post(BOOKS, BOOK, format="json", headers={"Idempotency-Key": "k-2"})
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")


def test_without_a_key_each_request_is_one_of_its_own(api: APIClient, shelf: type[Calls]) -> None:
    for name in ("a", "b"):
        assert api.post(BOOKS, {**BOOK, "name": name}, format="json").status_code == 201
    assert shelf.count == 2
    assert not IdempotentRequest.objects.exists()


@pytest.mark.parametrize(
    "other",
    [
        {"body": {**BOOK, "description": "short"}},
        {"url": f"{BOOKS}/ulysses", "method": "patch", "body": {"description": "long"}},
        {"url": f"{BOOKS}/ulysses", "method": "delete"},
    ],
    ids=["another body", "another address", "another method"],
)
def test_a_key_names_one_request_for_good(api: APIClient, shelf: type[Calls], other: dict) -> None:
    send(api)
    refused = send(api, **other)

    assert (refused.status_code, refused.json()["code"]) == (422, "idempotency_key_reused")
    assert Model.objects.get().description == "long"


def test_two_callers_may_choose_the_same_key(api: APIClient, shelf: type[Calls]) -> None:
    other = APIClient()
    other.force_authenticate(User(username="eve"), token=Principal(name="eve", role=UserRole.OPERATOR))
    send(api)

    assert send(other, {**BOOK, "name": "emma"}).status_code == 201
    assert shelf.count == 2


def test_what_failed_may_be_tried_again_under_the_same_key(
    api: APIClient, shelf: type[Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send(api, {**BOOK, "name": "cursed"}).status_code == 409
    assert send(api, {**BOOK, "name": "cursed"}, key="k-1").json()["code"] == "cursed"
    assert not IdempotentRequest.objects.exists()
    assert send(api).status_code == 201


def test_our_own_fault_frees_the_key_too(api: APIClient, shelf: type[Calls], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("a bug")

    api.raise_request_exception = False
    monkeypatch.setattr(shelf, "meanwhile", fails)
    assert send(api).status_code == 500
    assert not Model.objects.exists()

    monkeypatch.setattr(shelf, "meanwhile", lambda: None)
    assert send(api).status_code == 201


def test_a_secret_is_shown_once_and_not_kept(api: APIClient, shelf: type[Calls]) -> None:
    key = send(api, {**BOOK, "secret": True}).json()["key"]
    again = send(api, {**BOOK, "secret": True})

    assert (again.status_code, again.json()["code"]) == (409, "secret_shown_once")
    assert again.json()["current"]["name"] == "ulysses"
    assert key not in again.content.decode()
    assert key not in (IdempotentRequest.objects.get().answer or "")
    assert shelf.count == 1


def test_an_answer_without_a_body_is_replayed_too(api: APIClient, shelf: type[Calls]) -> None:
    send(api)
    first, again = (send(api, key="k-2", url=f"{BOOKS}/ulysses", method="delete") for _ in range(2))

    assert (first.status_code, again.status_code, again["Idempotency-Replayed"]) == (204, 204, "true")
    assert again.content == b""


def test_a_trial_run_uses_no_key_up(api: APIClient, shelf: type[Calls]) -> None:
    assert send(api, url=f"{BOOKS}?dry_run=true").status_code == 201
    assert send(api).status_code == 201
    assert Model.objects.exists()


def test_a_repeat_is_answered_before_its_version_is_looked_at(api: APIClient, shelf: type[Calls]) -> None:
    """The first one changed the version: a repeat must not be told that it is stale."""
    send(api)
    tag = api.get(f"{BOOKS}/ulysses")["ETag"]
    headers = {"Idempotency-Key": "k-2", "If-Match": tag}
    answers = [api.patch(f"{BOOKS}/ulysses", {"description": "new"}, format="json", headers=headers) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize("key", ["", "two words", "x" * 256, "ü"])
def test_a_key_that_is_none_is_refused(api: APIClient, shelf: type[Calls], key: str) -> None:
    refused = send(api, key=key)

    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_header")
    assert shelf.count == 0


def test_strangers_share_no_keys(shelf: type[Calls], db: None) -> None:
    for _ in range(2):
        Client().post(DESK, headers={"Idempotency-Key": "k-1"})
    assert shelf.count == 2


# -- time -----------------------------------------------------------------------------------------


def test_an_answer_is_kept_for_a_day(api: APIClient, shelf: type[Calls], now: Clock) -> None:
    send(api)
    now.advance(24 * 3600 - 1)
    assert idempotency.forget_old(now=now()) == 0
    assert send(api)["Idempotency-Replayed"] == "true"

    now.advance(2)
    assert idempotency.forget_old(now=now()) == 1


def test_a_key_is_free_after_a_day_even_before_the_sweep(api: APIClient, shelf: type[Calls], now: Clock) -> None:
    send(api)
    now.advance(24 * 3600 + 1)

    assert send(api, {**BOOK, "name": "emma"}).status_code == 201


def test_while_it_is_being_done_a_repeat_is_told_to_wait(
    api: APIClient, shelf: type[Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    repeats: list[HttpResponse] = []
    monkeypatch.setattr(shelf, "meanwhile", lambda: repeats.append(send(api)))
    first = send(api)

    assert first.status_code == 201
    [repeat] = repeats
    assert (repeat.status_code, repeat.json()["code"], repeat["Retry-After"]) == (409, "still_running", "1")


def test_a_key_whose_process_died_is_taken_over_once_it_is_overdue(
    api: APIClient, shelf: type[Calls], now: Clock
) -> None:
    send(api)
    IdempotentRequest.objects.update(status=None, answer=None)  # as it is left by a process that dies in between
    Model.objects.all().delete()
    assert send(api).status_code == 409

    now.advance(61)
    assert send(api).status_code == 201
    assert send(api)["Idempotency-Replayed"] == "true"


def test_of_a_slow_process_and_the_one_that_took_over_the_latter_counts(
    api: APIClient, shelf: type[Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that was taken over can't store an answer any more, so what the first one did is rolled back."""

    def is_taken_over() -> None:
        monkeypatch.setattr(shelf, "meanwhile", lambda: None)
        IdempotentRequest.objects.update(claimed_at=clock.now() - timedelta(seconds=61))
        taken = idempotency._claim(idempotency.Named("user:ada", "k-1", IdempotentRequest.objects.get().digest))
        assert not isinstance(taken, IdempotentRequest)

    monkeypatch.setattr(shelf, "meanwhile", is_taken_over)
    slow = send(api)

    assert (slow.status_code, slow.json()["code"]) == (409, "still_running")
    assert not Model.objects.exists()


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_double_click_is_done_once(operator: User, shelf: type[Calls]) -> None:
    def click() -> HttpResponse:
        client = APIClient()
        client.force_login(operator)
        return send(client)

    answers = at_once(click, click, click, click)

    assert all(isinstance(answer, HttpResponse) for answer in answers), answers
    done = [answer for answer in answers if isinstance(answer, HttpResponse) and answer.status_code == 201]
    told_to_wait = [answer for answer in answers if isinstance(answer, HttpResponse) and answer.status_code == 409]
    assert len(done) >= 1
    assert len(done) + len(told_to_wait) == 4
    assert sum("Idempotency-Replayed" not in answer for answer in done) == 1
    assert {answer.json()["code"] for answer in told_to_wait} <= {"still_running"}
    assert Model.objects.count() == shelf.count == 1


@pytest.mark.django_db(transaction=True)
def test_whoever_was_told_to_wait_gets_the_answer_of_the_first(operator: User, shelf: type[Calls]) -> None:
    client = APIClient()
    client.force_login(operator)

    assert send(client).status_code == 201
    assert send(client)["Idempotency-Replayed"] == "true"
