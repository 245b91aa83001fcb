"""Every answer names its request, whoever gives it, and so does every line of the log."""

from __future__ import annotations

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path
from pytest_django import Settings

from controlplane.core.request_id import current_request_id
from controlplane.core.rest.problems import problem


def sync_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(current_request_id())


async def async_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(current_request_id())


def named_by_another(request: HttpRequest) -> HttpResponse:
    return HttpResponse(headers={"X-Request-Id": "from-the-router"})


urlpatterns = [path("sync", sync_view), path("async", async_view), path("named", named_by_another)]


@pytest.fixture(autouse=True)
def own_addresses(settings: Settings) -> None:
    settings.ROOT_URLCONF = __name__


async def test_a_view_knows_the_id_that_is_answered() -> None:
    for address in ("/sync", "/async"):
        answer = await AsyncClient().get(address, headers={"X-Request-Id": "r-2"})
        assert (answer.content, answer["X-Request-Id"]) == (b"r-2", "r-2")


def test_so_does_one_that_is_called_without_a_loop() -> None:
    for address in ("/sync", "/async"):
        answer = Client().get(address, headers={"X-Request-Id": "r-1"})
        assert (answer.content, answer["X-Request-Id"]) == (b"r-1", "r-1")


def test_two_requests_have_two_ids() -> None:
    first, second = Client().get("/sync"), Client().get("/sync")

    assert first["X-Request-Id"] == first.content.decode() != second.content.decode()


def test_an_id_that_another_server_gave_is_left() -> None:
    assert Client().get("/named", headers={"X-Request-Id": "r-1"})["X-Request-Id"] == "from-the-router"


def test_nothing_of_a_request_is_left_when_it_is_over() -> None:
    Client().get("/sync")

    assert "request_id" not in structlog.contextvars.get_contextvars()
    assert current_request_id() == ""
    assert problem(404, "not_found", "No.").instance is None
