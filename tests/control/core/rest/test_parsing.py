from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.core.rest.limits import max_body_bytes

pytestmark = pytest.mark.django_db

MODELS = "/api/v1/models"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b'{"name": NaN}', "is no JSON"),
        (b'{"name": "\\ud800", "path": "/p"}', "is no JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "nested too deeply"),
    ],
)
def test_what_can_not_be_worked_with_is_refused_in_words(content: bytes, why: str, api: APIClient) -> None:
    answer = api.generic("POST", MODELS, content, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "parse_error")
    assert why in answer.json()["detail"]
    assert api.get(MODELS).json()["items"] == []


def test_a_body_beyond_the_limit_is_refused_also_without_a_login() -> None:
    content = b'{"username": "' + b"a" * max_body_bytes() + b'"}'

    answer = APIClient().generic("POST", "/api/v1/session", content, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
