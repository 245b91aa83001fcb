"""The official client with the native engine behind the router: what it asks for is what it gets, read by the worker
that writes the answer or handed over."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Literal

import openai
import pytest
from pydantic import BaseModel

from inference.testing.faulty_engine import FaultyEngine
from inference.testing.fleet import MODEL, Fleet
from tests.inference.router.conftest import PATIENT, Bench
from tests.inference.router.native.conftest import publish

PROMPT = "Two riders share one bike. Who of them sees the road?"


@pytest.fixture(params=[10_000, 0], ids=["local", "handoff"])
async def served(request: pytest.FixtureRequest, bench: Bench, fleet: Fleet[FaultyEngine]) -> Bench:
    bench.deadlines = dataclasses.replace(PATIENT, orphan_s=2.0)
    fleet.local_prefill_tokens = request.param
    await bench.start()
    await publish(bench, fleet)
    return bench


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 150} | fields


class Verdict(BaseModel):
    colour: Literal["red", "green"]
    sure: bool


async def test_an_answer_is_of_the_type_that_was_asked_for_however_it_is_drawn(served: Bench) -> None:
    for seed in range(3):
        fields = ask(response_format=Verdict, temperature=1.5, seed=seed)
        whole = await served.strict.chat.completions.parse(**fields)
        assert isinstance(whole.choices[0].message.parsed, Verdict)
        assert whole.choices[0].finish_reason == "stop"
        async with served.strict.chat.completions.stream(**fields) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.parsed == whole.choices[0].message.parsed


async def test_a_call_that_must_be_made_is_made_with_arguments_that_conform(served: Bench) -> None:
    parameters = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    function = {"name": "judge", "parameters": parameters | {"additionalProperties": False}}
    tools = [{"type": "function", "function": function}]
    fields = ask(tools=tools, tool_choice="required", parallel_tool_calls=False, seed=5, max_tokens=250)
    answer = await served.strict.chat.completions.create(**fields)
    assert answer.choices[0].finish_reason == "tool_calls"
    (call,) = answer.choices[0].message.tool_calls or ()
    assert call.type == "function"
    assert call.function.name == "judge"
    assert list(json.loads(call.function.arguments)) == ["sure"]


async def test_log_probabilities_are_those_of_the_model(served: Bench) -> None:
    answer = await served.strict.chat.completions.create(
        **ask(logprobs=True, top_logprobs=5, temperature=0, max_tokens=8)
    )
    told = answer.choices[0].logprobs
    assert told is not None
    assert told.content
    for entry in told.content:
        likeliest = [other.logprob for other in entry.top_logprobs]
        assert len(likeliest) == 5
        assert likeliest == sorted(likeliest, reverse=True)
        assert entry.logprob == likeliest[0], "greedy takes the likeliest"
        assert sum(map(math.exp, likeliest)) <= 1 + 1e-4


async def test_a_bias_decides_and_a_stop_text_ends(served: Bench) -> None:
    async with served.http.post("/tokenize", json={"model": MODEL, "prompt": "a"}) as told:
        token = (await told.json())["tokens"][-1]
    fields = ask(temperature=0, max_tokens=6, logit_bias={str(token): 100})
    (free,) = (await served.strict.chat.completions.create(**fields)).choices
    assert (free.message.content, free.finish_reason) == ("aaaaaa", "length")
    (stopped,) = (await served.strict.chat.completions.create(**fields, stop=["b", "aaaa"])).choices
    assert (stopped.message.content, stopped.finish_reason) == ("", "stop")


async def test_token_ids_are_the_text_and_an_echo_is_the_prompt(served: Bench) -> None:
    told = await (await served.http.post("/tokenize", json={"model": MODEL, "prompt": PROMPT})).json()
    fields = {"model": MODEL, "max_tokens": 8, "temperature": 0}
    text = await served.strict.completions.create(prompt=PROMPT, **fields)
    tokens = await served.strict.completions.create(prompt=told["tokens"], **fields)
    echoed = await served.strict.completions.create(prompt=[PROMPT, told["tokens"]], echo=True, **fields)
    assert tokens.choices[0].text == text.choices[0].text
    assert [choice.text for choice in echoed.choices] == [PROMPT + text.choices[0].text] * 2
    assert [each.usage.prompt_tokens for each in (text, tokens) if each.usage] == [told["count"]] * 2


async def test_several_answers_of_one_seed_differ_and_come_again(served: Bench) -> None:
    fields = ask(n=3, seed=11, temperature=1.0, max_tokens=10)
    answers = [await served.strict.chat.completions.create(**fields) for _ in range(2)]
    first, again = ([choice.message.content for choice in answer.choices] for answer in answers)
    assert first == again
    assert len(set(first)) == 3


async def test_what_this_engine_can_not_do_is_refused_by_name(served: Bench) -> None:
    for fields, param in (
        ({"logit_bias": {"99999999": 1}}, "logit_bias"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 7}}}},
         "response_format"),
        ({"max_tokens": 100_000}, "max_tokens"),
    ):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as caught:
            await served.strict.chat.completions.create(**ask(**fields) | fields)
        assert caught.value.param == param
    with pytest.raises(openai.BadRequestError) as caught:
        await served.strict.embeddings.create(model=MODEL, input="Hi")
    assert caught.value.code == "unsupported_endpoint"
