"""Tools through the official client: calls streamed and whole, over one worker and over two."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import pydantic_function_tool
from pydantic import BaseModel

from inference.contracts.errors import ErrorCode
from inference.contracts.states import Role
from inference.contracts.tools import ToolFormat, ToolGrammar
from tests.inference.router.conftest import LONG, MODEL, SHORT, Bench, eventually
from tests.inference.router.scripted import Misstep

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]
ARGUMENTS = '{"city": "Köln", "days": 3}'
CALLING = (
    "I look",
    " it up.\n",
    "<tool",
    '_call>\n{"name": "wea',
    'ther", "arguments": {"city": "K',
    'öln", "days": 3}}\n</tool_',
    'call>\n<tool_call>{"name": "time", "arguments": {}}</tool_call>',
)
PATHS = pytest.mark.parametrize("text", [SHORT, LONG], ids=["one worker", "two workers"])


async def serving(bench: Bench, *pieces: str, **script: Any) -> Bench:
    bench.worker(Role.PREFILL, pieces=pieces, **script)
    bench.worker(Role.DECODE, pieces=pieces, **script)
    return await bench.start()


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "tools": TOOLS, **fields}


@PATHS
async def test_calls_are_parsed_out_of_a_whole_answer(bench: Bench, text: str) -> None:
    await serving(bench, *CALLING)
    answer = await bench.strict.chat.completions.create(**ask(text))
    (choice,) = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look it up.\n"
    calls = choice.message.tool_calls
    assert [(call.type, call.function.name, call.function.arguments) for call in calls] == [
        ("function", "weather", ARGUMENTS),
        ("function", "time", "{}"),
    ]
    assert len({call.id for call in calls}) == 2
    await bench.at_rest()


@PATHS
async def test_the_streaming_helper_of_the_client_puts_calls_together(bench: Bench, text: str) -> None:
    await serving(bench, *CALLING)
    async with bench.strict.chat.completions.stream(**ask(text)) as stream:
        seen = [event.type async for event in stream]
        final = await stream.get_final_completion()
    assert final.choices[0].finish_reason == "tool_calls"
    assert [(call.function.name, call.function.arguments) for call in final.choices[0].message.tool_calls] == [
        ("weather", ARGUMENTS),
        ("time", "{}"),
    ]
    assert seen.count("tool_calls.function.arguments.done") == 2
    assert seen.count("tool_calls.function.arguments.delta") >= 3


async def test_nothing_of_a_call_is_ever_streamed_as_text(bench: Bench) -> None:
    await serving(bench, *CALLING)
    stream = await bench.strict.chat.completions.create(**ask(LONG, stream=True, logprobs=True))
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "I look it up.\n"
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [(delta.index, delta.type, delta.function.name) for delta in deltas if delta.id] == [
        (0, "function", "weather"),
        (1, "function", "time"),
    ]
    assert "".join(delta.function.arguments for delta in deltas if delta.index == 0) == ARGUMENTS


class Weather(BaseModel):
    city: str
    days: int


async def test_a_tool_made_of_a_pydantic_model_comes_back_as_one(bench: Bench) -> None:
    pieces = ('<tool_call>{"name": "Weather", "arguments": ', ARGUMENTS, "}</tool_call>")
    await serving(bench, *pieces)
    tools = [pydantic_function_tool(Weather)]
    answer = await bench.strict.chat.completions.parse(**ask(SHORT) | {"tools": tools})
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.parsed_arguments == Weather(city="Köln", days=3)
    grammar = bench.workers[1].reservations[0].sampling.grammar
    assert isinstance(grammar, ToolGrammar)
    assert (grammar.optional, grammar.tools[0].strict) == (True, True)


@PATHS
async def test_an_answer_without_calls_is_a_plain_answer(bench: Bench, text: str) -> None:
    await serving(bench, "It ", "rains <", "b>.")
    answer = await bench.strict.chat.completions.create(**ask(text))
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == "It rains <b>."
    assert answer.choices[0].message.tool_calls is None


async def test_calls_alone_come_with_no_content(bench: Bench) -> None:
    await serving(bench, '<tool_call>{"name": "time", "arguments": {}}</tool_call>')
    answer = await bench.strict.chat.completions.create(**ask(SHORT))
    assert answer.choices[0].message.content is None


async def test_a_call_that_reaches_the_limit_is_cut_and_says_so(bench: Bench) -> None:
    await serving(bench, *CALLING)
    answer = await bench.strict.chat.completions.create(**ask(SHORT, max_tokens=5))
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.tool_calls[0].function.arguments == '{"city": "K'


async def test_without_tools_a_text_that_looks_like_a_call_stays_text(bench: Bench) -> None:
    await serving(bench, *CALLING)
    for fields in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
        answer = await bench.strict.chat.completions.create(**ask(SHORT) | fields)
        assert answer.choices[0].message.content == "".join(CALLING)


async def test_only_the_first_call_where_one_at_a_time_was_asked_for(bench: Bench) -> None:
    await serving(bench, *CALLING)
    answer = await bench.strict.chat.completions.create(**ask(SHORT, parallel_tool_calls=False))
    assert [call.function.name for call in answer.choices[0].message.tool_calls] == ["weather"]


async def test_the_format_is_that_of_the_model(bench: Bench) -> None:
    await serving(bench, '{"name": "time", "parameters"', ": {}}", tool_format=ToolFormat.LLAMA3_JSON)
    answer = await bench.strict.chat.completions.create(**ask(SHORT))
    assert answer.choices[0].message.tool_calls[0].function.name == "time"


async def test_an_attempt_that_failed_leaves_nothing_of_its_calls(bench: Bench) -> None:
    """The worker is lost after half a call, of which the client has nothing yet."""
    await serving(bench, '<tool_call>{"name": "ti', 'me", "arguments": {}}</tool_call>')
    bench.workers[1].missteps["generate"] = Misstep("fail", ErrorCode.ENGINE_FAILED, after=1, times=1)
    other = bench.worker(Role.DECODE, pieces=bench.workers[1].pieces)
    await other.start()
    bench.publish()
    await eventually(lambda: len(bench.router.tables.deployments[0].workers) == 3)
    for _ in range(4):
        async with bench.strict.chat.completions.stream(**ask(SHORT)) as stream:
            final = await stream.get_final_completion()
        assert [call.function.name for call in final.choices[0].message.tool_calls] == ["time"]
    await bench.at_rest()


async def test_an_older_worker_is_not_asked_for_what_it_would_ignore(bench: Bench) -> None:
    await serving(bench, *CALLING, sampling_version=2)
    with pytest.raises(openai.InternalServerError) as caught:
        await bench.strict.chat.completions.create(**ask(SHORT))
    assert caught.value.status_code == 503
    messages = [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "3"},
    ]
    status, _ = await bench.chat(messages=messages)
    assert status == 503
    assert not bench.workers[1].calls["generate"]


async def test_tools_and_results_reach_the_worker(bench: Bench) -> None:
    await serving(bench, "Fine.")
    call = {"id": "call_9", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
    messages = [
        {"role": "user", "content": SHORT},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_9", "content": "rain"},
    ]
    await bench.strict.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    prompt = bench.workers[1].reservations[0].prompt
    assert [tool.name for tool in prompt.tools] == ["weather"]
    assert json.loads(prompt.messages[1].tool_calls[0].arguments) == json.loads(ARGUMENTS)
    assert prompt.messages[2].name == "weather"


async def test_a_loop_of_calls_and_results_ends_with_an_answer(bench: Bench) -> None:
    """As programs are written: the client's own message goes back as it came, then the results, until no call comes."""
    pieces = ('<tool_call>{"name": "Weather", "arguments": ', ARGUMENTS, "}</tool_call>")
    await serving(bench, *pieces)
    tools: Any = [pydantic_function_tool(Weather)]
    messages: list[Any] = [{"role": "user", "content": SHORT}]
    for _ in range(3):
        answer = await bench.strict.chat.completions.parse(model=MODEL, messages=messages, tools=tools)
        message = answer.choices[0].message
        messages.append(message)
        for call in message.tool_calls or ():
            found = call.function.parsed_arguments
            assert isinstance(found, Weather)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{found.days} days of rain"})
        if not message.tool_calls:
            break
        for worker in bench.workers:
            worker.pieces = ("It will ", "rain.")
    assert (messages[-1].content, len(messages)) == ("It will rain.", 4)
    told = bench.workers[1].reservations[1].prompt.messages
    assert [(each.role, each.content) for each in told] == [
        ("user", SHORT),
        ("assistant", ""),
        ("tool", "3 days of rain"),
    ]
    assert told[1].tool_calls[0].id == told[2].tool_call_id


@pytest.mark.parametrize(
    ("choice", "must", "callable"),
    [
        ("required", True, ["weather", "time"]),
        ({"type": "function", "function": {"name": "time"}}, True, ["time"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "weather"}}],
                },
            },
            True,
            ["weather"],
        ),
    ],
    ids=["required", "named", "allowed"],
)
async def test_a_call_that_must_be_made_is_enforced_by_the_worker(
    bench: Bench, choice: Any, must: bool, callable: list[str]
) -> None:
    await serving(bench, '<tool_call>{"name": "time", "arguments": {}}</tool_call>')
    tools = [*TOOLS, {"type": "function", "function": {"name": "time"}}]
    await bench.strict.chat.completions.create(**ask(SHORT) | {"tools": tools, "tool_choice": choice})
    grammar = bench.workers[1].reservations[0].sampling.grammar
    assert isinstance(grammar, ToolGrammar)
    assert (not grammar.optional, [tool.name for tool in grammar.tools]) == (must, callable)
