"""What a chat request may say of tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.contracts.prompts import ChatMessage
from inference.contracts.sampling import JsonGrammar
from inference.contracts.tools import Tool, ToolCall, ToolGrammar
from inference.router.openai.request import Asked, read_chat
from tests.inference.router.openai.test_request import chat, refused

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ANY = '{"type":"object"}'
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": CITY}}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **fields}}


TOOLS = [tool("weather", description="Of a city.", parameters=CITY), tool("time")]
WEATHER = Tool(name="weather", description="Of a city.", parameters=json.dumps(CITY, separators=(",", ":")))
TIME = Tool(name="time")
NAMED = {"type": "function", "function": {"name": "time"}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [tool(name) for name in names]}}


def asked(**fields: Any) -> Asked:
    return read_chat(chat(tools=TOOLS, **fields))


def told(request: Asked) -> tuple[Tool, ...]:
    (prompt,) = request.prompts
    return prompt.tools


@pytest.mark.parametrize("choice", [None, "auto"])
def test_a_model_that_is_told_of_tools_is_free_to_call_them(choice: str | None) -> None:
    request = asked(tool_choice=choice)
    assert told(request) == (WEATHER, TIME)
    assert request.sampling.grammar is None
    assert request.sampling.special_tokens
    assert request.sampling.version == 3


@pytest.mark.parametrize("fields", [{"tools": []}, {"tools": None, "tool_choice": "auto"}, {}])
def test_without_tools_nothing_changes(fields: dict[str, Any]) -> None:
    request = read_chat(chat(temperature=0.5, **fields))
    assert request.tools is None
    assert not request.sampling.special_tokens
    assert (request.sampling.version, request.prompts[0].version) == (1, 1)


def test_a_model_that_may_call_nothing_is_told_of_nothing() -> None:
    request = asked(tool_choice="none")
    assert (told(request), request.tools) == ((), None)


@pytest.mark.parametrize(
    ("choice", "tells", "calls"),
    [
        ("required", (WEATHER, TIME), ToolGrammar(tools=(WEATHER, TIME))),
        (NAMED, (WEATHER, TIME), ToolGrammar(tools=(TIME,), several=False)),
        (allowed("required", "time"), (WEATHER, TIME), ToolGrammar(tools=(TIME,))),
        (allowed("auto", "time"), (TIME,), None),
    ],
)
def test_a_choice_binds_the_answer(choice: Any, tells: tuple[Tool, ...], calls: ToolGrammar | None) -> None:
    request = asked(tool_choice=choice)
    assert (told(request), request.sampling.grammar) == (tells, calls)


def test_one_call_at_a_time_may_be_asked_for() -> None:
    assert asked(parallel_tool_calls=True).tools.several
    request = asked(parallel_tool_calls=False, tool_choice="required")
    assert not request.tools.several
    assert request.sampling.grammar == ToolGrammar(tools=(WEATHER, TIME), several=False)


def test_a_strict_tool_binds_free_answers_too_and_others_do_not() -> None:
    tools = [TOOLS[0], tool("time", strict=True)]
    grammar = read_chat(chat(tools=tools)).sampling.grammar
    loose = Tool(name="weather", description="Of a city.", parameters=ANY)
    assert grammar == ToolGrammar(tools=(loose, Tool(name="time", strict=True)), optional=True)


def test_an_answer_is_calls_or_of_the_asked_format() -> None:
    grammar = asked(response_format=SCHEMA).sampling.grammar
    assert isinstance(grammar, ToolGrammar)
    assert grammar.optional
    assert json.loads(grammar.otherwise) == CITY
    assert asked(response_format=SCHEMA, tool_choice="required").sampling.grammar.otherwise is None
    assert isinstance(asked(response_format=SCHEMA, tool_choice="none").sampling.grammar, JsonGrammar)


def test_parameters_without_a_type_are_those_of_an_object() -> None:
    (only,) = told(read_chat(chat(tools=[tool("f", parameters={"properties": {}})])))
    assert json.loads(only.parameters) == {"type": "object", "properties": {}}


def test_calls_and_their_results_are_part_of_the_conversation() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    empty = {"id": "call_2", "type": "function", "function": {"name": "time", "arguments": ""}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call, empty]},
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
    ]
    request = read_chat(chat(messages=messages))
    calls = (
        ToolCall(id="call_1", name="weather", arguments='{"city": "Bonn"}'),
        ToolCall(id="call_2", name="time", arguments="{}"),
    )
    assert request.prompts[0].messages[1:] == (
        ChatMessage(role="assistant", content="", tool_calls=calls),
        ChatMessage(role="tool", content="rain", tool_call_id="call_1", name="weather"),
    )
    assert request.prompts[0].version == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [tool("a"), tool("b c")]}, "tools[1].function.name"),
        ({"tools": [tool("")]}, "tools[0].function.name"),
        ({"tools": [tool("a"), tool("a")]}, "tools[1].function.name"),
        ({"tools": [tool(f"t{number}") for number in range(129)]}, "tools"),
        ({"tools": [tool("a", parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": {}}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "any"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "custom", "custom": {"name": "x"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": allowed("auto", "x")}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": allowed("auto")}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": allowed("never", "time")}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "required", "min_tokens": 2}, "min_tokens"),
        ({"tools": TOOLS, "tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        (
            {"messages": [{"role": "user", "content": "x", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}]},
            "messages[0].tool_calls",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "["}}]}
                ]
            },
            "messages[0].tool_calls[0].function.arguments",
        ),
        (
            {"messages": [{"role": "assistant", "content": "x", "function_call": {"name": "f"}}]},
            "messages[0].function_call",
        ),
    ],
)
def test_what_can_not_be_done_is_refused_with_the_field_at_fault(fields: dict[str, Any], param: str) -> None:
    assert refused(read_chat, chat(**fields)).param == param
