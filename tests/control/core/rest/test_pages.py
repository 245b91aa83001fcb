from __future__ import annotations

import pytest
from django.http import Http404, HttpRequest
from django.test import Client, RequestFactory
from django.urls import path
from pytest_django import Settings
from rest_framework.views import APIView

from controlplane.config import urls
from controlplane.core.rest.pages import bad_request, csrf_failure, not_found, server_error


class BrokenApi(APIView):
    authentication_classes = []
    permission_classes = []

    def get(self, request: HttpRequest) -> None:
        raise KeyError("something private")


urlpatterns = [path("api/v1/broken", BrokenApi.as_view()), *urls.urlpatterns]
handler500 = urls.handler500


def test_an_unknown_endpoint_is_a_json_404_whatever_the_method() -> None:
    for answer in (Client().get("/api/v1/nothing"), Client().post("/api/nothing/at/all")):
        assert answer.status_code == 404
        refusal = answer.json()
        assert refusal["code"] == "not_found"
        assert refusal["detail"].startswith("There is no endpoint /api/")


def test_a_fault_under_api_is_a_json_500_that_shows_nothing_of_it(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__
    answer = Client(raise_request_exception=False).get("/api/v1/broken")

    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
    assert "private" not in answer.content.decode()


def test_a_fault_elsewhere_is_a_page(rf: RequestFactory) -> None:
    assert server_error(rf.get("/pools"))["Content-Type"].startswith("text/html")


@pytest.mark.django_db
def test_the_api_description_needs_a_login() -> None:
    assert Client().get("/api/v1/schema").status_code == 401
    assert Client().get("/api/v1/docs").status_code == 401


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("/api/v1/a%0Ab", {}, 404),
        ("/api/v1/models", {"Host": "evil.example"}, 400),
    ],
)
def test_what_no_endpoint_ever_sees_is_a_problem_too(address: str, headers: dict[str, str], status: int) -> None:
    answer = Client().get(address, headers=headers)

    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert "\n" not in answer.json()["detail"]


def test_an_unknown_endpoint_is_404_also_where_a_csrf_token_is_missing() -> None:
    assert Client(enforce_csrf_checks=True).post("/api/v1/nothing").status_code == 404


def test_outside_of_the_api_they_are_pages(rf: RequestFactory) -> None:
    assert csrf_failure(rf.post("/pools"))["Content-Type"].startswith("text/html")
    assert csrf_failure(rf.post("/api/v1/x"))["Content-Type"] == "application/problem+json"
    assert bad_request(rf.get("/pools"), ValueError())["Content-Type"].startswith("text/html")
    assert not_found(rf.get("/pools"), Http404())["Content-Type"].startswith("text/html")
