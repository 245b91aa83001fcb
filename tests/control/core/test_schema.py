"""The OpenAPI description says what the endpoints really read and write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from controlplane.core.schema import documented


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    GENERATOR_STATS.reset()
    return SchemaGenerator().get_schema(request=None, public=True)


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, verb, operation) for path, verbs in schema["paths"].items() for verb, operation in verbs.items()]


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        here = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return here + [name for value in part.values() for name in references(value)]
    if isinstance(part, list):
        return [name for value in part for name in references(value)]
    return []


def test_it_is_valid_and_made_without_a_warning(schema: dict[str, Any]) -> None:
    assert list(GENERATOR_STATS._warn_cache) + list(GENERATOR_STATS._error_cache) == []
    validate_schema(schema)


def test_every_type_it_mentions_is_there(schema: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}

    assert set(references(schema)) <= known


def test_every_operation_has_a_name_of_its_own_and_a_documented_refusal(schema: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(schema)]
    assert len(names) == len(set(names))
    for path, verb, operation in operations(schema):
        refusals = [answer for code, answer in operation["responses"].items() if code >= "400"]
        assert refusals, f"{verb} {path} never refuses"
        for answer in refusals:
            assert answer["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}


def test_a_body_is_required_when_one_of_its_fields_is(schema: dict[str, Any]) -> None:
    assert schema["paths"]["/api/v1/models"]["post"]["requestBody"]["required"]
    assert not schema["paths"]["/api/v1/join-tokens"]["post"]["requestBody"]["required"]


def test_unknown_values_are_described_as_null(schema: dict[str, Any]) -> None:
    memory = schema["components"]["schemas"]["NodeView"]["properties"]["memory_used"]

    assert memory == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_two_types_of_one_name_are_refused_where_they_are_declared() -> None:
    same = "TwiceNamed"
    documented("First use", answers={200: msgspec.defstruct(same, [("a", int)])})
    with pytest.raises(TypeError, match=same):
        documented("Second use", answers={200: msgspec.defstruct(same, [("b", int)])})
