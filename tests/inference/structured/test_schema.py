"""What is said of a schema without a model is what the engine says of it (tests/inference/engine/sampling)."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from inference.contracts.sampling import JsonGrammar
from inference.contracts.tools import Tool, ToolGrammar
from inference.structured.schema import fault, field_of

FOLLOWED: list[Any] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}, "required": ["a"]},
    {"$defs": {"node": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "$ref": "#/$defs/node"},
    {"enum": ["a", 1, None]},
]
NOT_FOLLOWED: list[Any] = [
    {"type": 7},
    {"type": "objekt"},
    {"properties": 7},
    {"$ref": "#/nowhere"},
    {"$ref": "https://example.org/schema"},
    {"not": {"type": "string"}},
    {"type": "array", "uniqueItems": True},
    {"type": "string", "pattern": "(a"},
    {"type": "integer", "minimum": 2, "maximum": 1},
]


def of_tools(*tools: Tool, otherwise: str | None = None) -> ToolGrammar:
    return ToolGrammar(tools=tools, optional=otherwise is not None, otherwise=otherwise)


@pytest.mark.parametrize("schema", FOLLOWED)
def test_nothing_is_wrong_with_a_schema_that_can_be_followed(schema: Any) -> None:
    text = json.dumps(schema)
    assert fault(JsonGrammar(schema=text)) is None
    assert fault(of_tools(Tool(name="f", parameters=text, strict=True), otherwise=text)) is None


@pytest.mark.parametrize("schema", NOT_FOLLOWED)
def test_a_schema_that_can_not_be_followed_is_told_with_the_reason(schema: Any) -> None:
    text = json.dumps(schema)
    reason = fault(JsonGrammar(schema=text))
    assert reason is not None
    assert reason.startswith("the schema can't be followed: ")
    assert "the schema of f can't" in (fault(of_tools(Tool(name="f", parameters=text, strict=True))) or "")
    assert "the schema of the answer can't" in (fault(of_tools(Tool(name="f"), otherwise=text)) or "")


def test_what_can_not_be_followed_of_a_tool_that_is_not_strict_is_left_to_the_model() -> None:
    text = json.dumps({"type": "object", "properties": {"a": {"not": {"type": "string"}}}})
    assert fault(of_tools(Tool(name="f", parameters=text))) is None
    assert fault(of_tools(Tool(name="f", parameters=text, strict=True))) is not None


def test_a_schema_that_is_nested_beyond_measure_is_told_and_no_more() -> None:
    assert "can't be read" in (fault(JsonGrammar(schema='{"items":' * 400 + "{}" + "}" * 400)) or "")


def test_a_grammar_is_named_as_clients_name_it() -> None:
    assert field_of(JsonGrammar(schema="{}")) == "response_format"
    assert field_of(of_tools(Tool(name="f"))) == "tools"


def test_neither_torch_nor_a_tokenizer_is_loaded_for_it() -> None:
    code = (
        "import sys, inference.structured.schema; "
        "print(sorted({'torch', 'transformers', 'tokenizers', 'numpy'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"
