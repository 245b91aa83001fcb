from __future__ import annotations

import pytest
from django.http import HttpRequest
from django.test import Client, RequestFactory
from django.urls import path
from pytest_django import Settings
from rest_framework.views import APIView

from controlplane.config import urls
from controlplane.core.pages import server_error


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
