from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.test import APIRequestFactory

from controlplane.core.errors import Conflict, Invalid, NotFound, StaleGeneration, Unauthenticated
from controlplane.core.rest.api import answer, body, exception_handler
from controlplane.core.rest.parsing import JSONParser
from controlplane.core.rest.rendering import JSONRenderer


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    low: int


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """As one that travels between releases, too: on its own it takes what it does not know."""

    high: int = 1


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    limits: Limits | None = None
    target: Target = Target()
    targets: tuple[Target, ...] = ()
    named: dict[str, Target] = {}


def request(content: Any) -> Request:
    return Request(APIRequestFactory().post("/", content, format="json"), parsers=[JSONParser()])


def refused(error: Exception) -> tuple[int, dict[str, Any]]:
    response = exception_handler(error, {})
    assert response is not None
    assert response["Content-Type"] == "application/problem+json"
    refusal = json.loads(response.content)
    assert refusal["status"] == response.status_code
    return response.status_code, refusal


def test_a_right_body_is_read_as_its_struct() -> None:
    assert body(request({"name": "a", "limits": {"low": 1}}), Wanted) == Wanted(name="a", limits=Limits(low=1))


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"name": 5}, "name"),
        ({}, "name"),
        ({"name": "a", "limits": {"low": "1"}}, "limits.low"),
        ({"name": "a", "limits": {}}, "limits.low"),
        ({"name": "a", "naem": "b"}, "naem"),
        ({"name": "a", "target": {"hihg": 2}}, "target.hihg"),
        ({"name": "a", "targets": [{"high": 2}, {"hihg": 2}]}, "targets[1].hihg"),
        ({"name": "a", "named": {"b": {"hihg": 2}}}, "named.b.hihg"),
        ([], None),
        ("a", None),
    ],
)
def test_a_wrong_body_is_refused_with_the_field_at_fault(content: Any, field: str | None) -> None:
    with pytest.raises(Invalid) as caught:
        body(request(content), Wanted)

    assert (caught.value.code, caught.value.field) == ("invalid_body", field)
    assert caught.value.message.endswith(".")
    assert "$" not in caught.value.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": 5}, "Text is needed here, not a whole number."),
        ({"name": None}, "Text is needed here, not null."),
        ({"name": "a", "limits": {"low": 1.5}}, "A whole number is needed here, not a decimal number."),
        ({"name": "a", "limits": []}, "An object or null is needed here, not a list."),
        ({}, "'name' is missing."),
        ({"name": "a", "naem": "b"}, "There is no field 'naem' here."),
        ([], "An object is needed here, not a list."),
    ],
)
def test_a_wrong_body_is_refused_in_plain_words(content: Any, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        body(request(content), Wanted)

    assert caught.value.message == message


def test_a_message_of_a_newer_release_is_read_without_what_it_has_more() -> None:
    assert body(request({"high": 2, "higher": 3}), Target) == Target(high=2)


def test_text_that_can_not_be_stored_is_refused_with_its_field() -> None:
    with pytest.raises(Invalid, match="U\\+0000") as caught:
        body(request({"name": "a", "limits": {"low": ["b", "c\0"]}}), Wanted)

    assert caught.value.field == "limits.low.1"


def test_no_cache_may_keep_an_answer() -> None:
    refusal = exception_handler(Invalid("No."), {})

    assert answer(Limits(low=1))["Cache-Control"] == "no-store"
    assert refusal is not None
    assert refusal["Cache-Control"] == "no-store"


def test_each_refusal_of_a_service_has_its_status() -> None:
    assert refused(Invalid("No.", field="name"))[0] == 400
    assert refused(Unauthenticated("No."))[0] == 401
    assert refused(NotFound("pool", "p1")) == (
        404,
        {
            "type": "urn:tandem:problem:not_found",
            "title": "Not found",
            "status": 404,
            "detail": "There is no pool 'p1'.",
            "instance": None,
            "code": "not_found",
            "field": None,
            "current": None,
        },
    )
    assert refused(Conflict("No."))[0] == 409


def test_a_stale_generation_comes_with_the_current_value() -> None:
    status, refusal = refused(StaleGeneration("The decode pool", 3, {"generation": 4, "replicas": 2}))

    assert (status, refusal["code"], refusal["field"]) == (409, "stale_generation", "generation")
    assert refusal["current"] == {"generation": 4, "replicas": 2}
    assert "3" in refusal["detail"]
    assert "4" in refusal["detail"]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Http404(), 404, "not_found"),
        (PermissionDenied(), 403, "permission_denied"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
        (exceptions.UnsupportedMediaType("text/plain"), 415, "unsupported_media_type"),
        (exceptions.ParseError("JSON parse error"), 400, "parse_error"),
        (OperationalError("connection refused"), 503, "database_away"),
        (InterfaceError("connection already closed"), 503, "database_away"),
        (exceptions.ValidationError(["one", "two"]), 400, "invalid"),
    ],
)
def test_what_the_framework_refuses_has_the_same_shape(error: Exception, status: int, code: str) -> None:
    answered, refusal = refused(error)

    assert (answered, refusal["code"]) == (status, code)
    assert isinstance(refusal["detail"], str)
    assert refusal["detail"]


def test_our_own_faults_are_not_dressed_up_as_refusals() -> None:
    assert exception_handler(KeyError("x"), {}) is None


def test_structs_and_lists_of_them_are_answered_as_plain_json() -> None:
    assert JSONRenderer().render(answer([Limits(low=1)]).data) == b'[{"low":1}]'
    assert answer(Limits(low=1), 201).status_code == 201
