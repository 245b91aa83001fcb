"""F25: whoever names the version that they saw never overwrites another one."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from rest_framework.test import APIClient

from controlplane.catalog.models import Model
from controlplane.core.rest.versions import etag
from tests.control.core.rest.shelf import BOOKS, Calls
from tests.control.races import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db, pytest.mark.usefixtures("shelf")]

ONE = f"{BOOKS}/ulysses"


@pytest.fixture
def book(api: APIClient) -> None:
    api.post(BOOKS, {"name": "ulysses", "description": "old"}, format="json")


def change(client: APIClient, tag: str, description: str = "new") -> HttpResponse:
    return client.patch(ONE, {"description": description}, format="json", headers={"If-Match": tag})


def test_what_is_shown_has_a_version_that_changes_with_it(api: APIClient, book: None) -> None:
    before, same = api.get(ONE)["ETag"], api.get(ONE)["ETag"]
    change(api, before)

    assert before == same
    assert api.get(ONE)["ETag"] != before


def test_a_list_has_none(api: APIClient, book: None) -> None:
    assert "ETag" not in api.get(BOOKS)


def test_a_write_that_names_the_present_version_is_done(api: APIClient, book: None) -> None:
    tag = api.get(ONE)["ETag"]

    assert change(api, f'"other", {tag}').status_code == 200
    assert Model.objects.get().description == "new"


def test_a_write_that_names_an_older_one_is_412_with_what_is_there_now(api: APIClient, book: None) -> None:
    tag = api.get(ONE)["ETag"]
    change(api, tag, "first")
    refused = change(api, tag, "second")

    assert (refused.status_code, refused.json()["code"]) == (412, "stale_version")
    assert refused.json()["current"]["description"] == "first"
    assert Model.objects.get().description == "first"


def test_any_version_will_do_where_one_asks_only_that_it_is_there(api: APIClient, book: None) -> None:
    assert change(api, "*").status_code == 200
    assert api.delete(f"{BOOKS}/nothing", headers={"If-Match": "*"}).status_code == 404


def test_a_weak_tag_never_matches(api: APIClient, book: None) -> None:
    assert change(api, f"W/{api.get(ONE)['ETag']}").status_code == 412


def test_a_trial_run_looks_at_the_version_too(api: APIClient, book: None) -> None:
    refused = api.delete(f"{ONE}?dry_run=true", headers={"If-Match": '"older"'})

    assert refused.status_code == 412


@pytest.mark.parametrize("tag", ["12", "", '"a", b'])
def test_what_is_no_tag_is_refused(api: APIClient, book: None, tag: str) -> None:
    assert (change(api, tag).status_code, change(api, tag).json()["code"]) == (400, "invalid_header")


def test_where_there_is_no_version_none_may_be_named(api: APIClient) -> None:
    refused = api.post(BOOKS, {"name": "ulysses"}, format="json", headers={"If-Match": "*"})

    assert (refused.status_code, refused.json()["code"]) == (400, "no_version")
    assert not Model.objects.exists()


def test_a_generation_is_its_own_tag() -> None:
    assert etag(12) == '"12"'
    assert etag({"a": 1, "b": 2}) == etag({"b": 2, "a": 1}) != etag({"a": 2, "b": 1})


@pytest.mark.django_db(transaction=True)
def test_of_two_who_saw_the_same_version_one_is_refused(operator: User, shelf: type[Calls]) -> None:
    api = APIClient()
    api.force_login(operator)
    api.post(BOOKS, {"name": "ulysses", "description": "old"}, format="json")
    tag = api.get(ONE)["ETag"]

    def changer(description: str) -> HttpResponse:
        client = APIClient()
        client.force_login(operator)
        return change(client, tag, description)

    answers = at_once(*(lambda name=name: changer(name) for name in ("a", "b", "c")))

    assert sorted(getattr(answer, "status_code", answer) for answer in answers) == [200, 412, 412]
