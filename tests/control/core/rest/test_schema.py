"""The OpenAPI description says what the endpoints really read and write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from controlplane.core.rest.schema import documented


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
        if path.startswith("/api/v1/playground/chat"):  # answers as the serving API does
            continue
        refusals = [answer for code, answer in operation["responses"].items() if code >= "400"]
        assert refusals, f"{verb} {path} never refuses"
        for answer in refusals:
            assert answer["content"]["application/problem+json"]["schema"] == {"$ref": "#/components/schemas/Problem"}


def test_a_body_is_required_when_one_of_its_fields_is(schema: dict[str, Any]) -> None:
    assert schema["paths"]["/api/v1/models"]["post"]["requestBody"]["required"]
    assert not schema["paths"]["/api/v1/join-tokens"]["post"]["requestBody"]["required"]


def test_what_a_body_is_made_of_takes_no_other_fields_either(schema: dict[str, Any]) -> None:
    schemas = schema["components"]["schemas"]
    assert all(schemas[name]["additionalProperties"] is False for name in ("DeploymentBody", "EngineSettings"))
    assert "additionalProperties" not in schemas["DeploymentView"]


def test_unknown_values_are_described_as_null(schema: dict[str, Any]) -> None:
    memory = schema["components"]["schemas"]["NodeView"]["properties"]["memory_used"]

    assert memory == {"anyOf": [{"type": "integer"}, {"type": "null"}]}


def test_two_types_of_one_name_are_refused_where_they_are_declared() -> None:
    same = "TwiceNamed"
    documented("First use", answers={200: msgspec.defstruct(same, [("a", int)])})
    with pytest.raises(TypeError, match=same):
        documented("Second use", answers={200: msgspec.defstruct(same, [("b", int)])})


def test_the_command_that_writes_it_has_nothing_to_complain_about(tmp_path: Path) -> None:
    written = tmp_path / "schema.json"
    call_command("spectacular", "--fail-on-warn", "--validate", "--format", "openapi-json", "--file", str(written))

    assert json.loads(written.read_text())["openapi"].startswith("3.1")


def test_every_write_documents_how_to_try_it_and_how_to_name_it(schema: dict[str, Any]) -> None:
    known = {
        f"{verb} {path}": {parameter["name"] for parameter in operation.get("parameters", [])}
        for path, verb, operation in operations(schema)
    }

    assert {"dry_run", "Idempotency-Key", "If-Match"} <= known["delete /api/v1/deployments/{name}"]
    assert {"dry_run", "Idempotency-Key"} <= known["post /api/v1/models"]
    assert "If-Match" not in known["post /api/v1/models"]
    assert {"cursor", "limit", "order", "name"} <= known["get /api/v1/models"]
    assert not known["post /api/v1/session"] & {"dry_run", "Idempotency-Key", "If-Match"}


def test_pages_have_names_that_generated_clients_can_use(schema: dict[str, Any]) -> None:
    assert "ModelViewPage" in schema["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*", name) for name in schema["components"]["schemas"])


def test_the_playground_is_described_though_it_is_no_endpoint_of_the_framework(schema: dict[str, Any]) -> None:
    chat = schema["paths"]["/api/v1/playground/chat"]["post"]

    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
