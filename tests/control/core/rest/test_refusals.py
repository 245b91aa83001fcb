"""Whatever is refused, at whichever endpoint, is refused in one shape: a code, one sentence, and the field."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

SCHEMA = SchemaGenerator().get_schema(request=None, public=True)

#: Every operation of the management API: verb, path, description.
OPERATIONS = [
    pytest.param(verb, path, operation, id=f"{verb} {path}")
    for path, verbs in SCHEMA["paths"].items()
    for verb, operation in verbs.items()
    # The playground answers as the serving API does, errors included.
    if not path.startswith("/api/v1/playground")
]


def has_body(operation: dict[str, Any]) -> bool:
    return bool(operation.get("requestBody", {}).get("required"))


#: What nobody has to log in for: machines show a token of their own, which is looked at before a body is.
PUBLIC = ("/api/v1/session", "/api/v1/nodes/join", "/api/v1/nodes/hello")

WITH_BODY = [case for case in OPERATIONS if has_body(case.values[2]) and case.values[1] not in PUBLIC[1:]]
WITH_ID = [case for case in OPERATIONS if "{" in case.values[1] and not has_body(case.values[2])]

pytestmark = pytest.mark.django_db


def needs_login(operation: dict[str, Any]) -> bool:
    return "security" in operation


def concrete(path: str, operation: dict[str, Any]) -> str:
    """`path` with ids and names that nothing has."""
    for parameter in operation.get("parameters", []):
        if parameter["in"] == "path":
            kind = (parameter["schema"]["type"], parameter["schema"].get("format"))
            nothing = {("integer", None): "987654321", ("string", "uuid"): str(uuid4())}.get(kind, "no-such-name")
            path = path.replace(f"{{{parameter['name']}}}", nothing)
    return path


def check_shape(answer: Any) -> dict[str, Any]:
    """The refusal in `answer`, which has the one shape."""
    assert answer["Content-Type"] == "application/problem+json"
    refusal: dict[str, Any] = answer.json()
    assert set(refusal) == {"type", "title", "status", "detail", "instance", "code", "field", "current"}
    assert (refusal["status"], refusal["type"]) == (answer.status_code, f"urn:tandem:problem:{refusal['code']}")
    assert refusal["instance"] == f"urn:tandem:request:{answer['X-Request-Id']}"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", refusal["code"])
    assert re.fullmatch(r"[^\n]+\.", refusal["detail"]), refusal["detail"]
    assert refusal["field"] is None or refusal["field"]
    return refusal


@pytest.mark.parametrize(("verb", "path", "operation"), OPERATIONS)
def test_without_a_login_everything_but_login_join_and_hello_is_401(
    verb: str, path: str, operation: dict[str, Any], db: None
) -> None:
    if not needs_login(operation):
        assert path in PUBLIC
        return
    answer = APIClient().generic(verb.upper(), concrete(path, operation), "{}", content_type="application/json")

    assert answer.status_code == 401
    assert check_shape(answer)["code"] == "not_authenticated"
    assert answer["WWW-Authenticate"]


@pytest.mark.parametrize(("verb", "path", "operation"), OPERATIONS)
def test_a_method_that_an_endpoint_does_not_have_is_405(
    verb: str, path: str, operation: dict[str, Any], api: APIClient
) -> None:
    answer = api.generic("TRACE", concrete(path, operation), "{}", content_type="application/json")

    assert answer.status_code == 405
    assert check_shape(answer)["code"] == "method_not_allowed"


@pytest.mark.parametrize(("verb", "path", "operation"), WITH_ID)
def test_an_id_that_nothing_has_is_404(verb: str, path: str, operation: dict[str, Any], api: APIClient) -> None:
    answer = api.generic(verb.upper(), concrete(path, operation), "{}", content_type="application/json")

    assert answer.status_code == 404
    assert check_shape(answer)["code"] == "not_found"


@pytest.mark.parametrize(("verb", "path", "operation"), WITH_BODY)
@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        ("{", "application/json", 400, "parse_error"),
        ("[]", "application/json", 400, "invalid_body"),
        ("null", "application/json", 400, "invalid_body"),
        ("{}", "application/json", 400, "invalid_body"),
        ("a=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    verb: str,
    path: str,
    operation: dict[str, Any],
    content: str,
    content_type: str,
    status: int,
    code: str,
    api: APIClient,
) -> None:
    answer = api.generic(verb.upper(), concrete(path, operation), content, content_type=content_type)

    assert (answer.status_code, check_shape(answer)["code"]) == (status, code)
