"""Structured output through the official client: schemas made of its users' own types, answers read back into them."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from inference.contracts.sampling import JsonGrammar
from inference.contracts.states import Role
from tests.inference.router.conftest import LONG, MODEL, SHORT, Bench

PIECES = ('{"city": "Kö', 'ln", "stops": [{"name": "Do', 'm", "minutes": 12}', "]}")
PATHS = pytest.mark.parametrize("text", [SHORT, LONG], ids=["one worker", "two workers"])


class Stop(BaseModel):
    name: str
    minutes: int


class Tour(BaseModel):
    city: str
    stops: list[Stop]


TOUR = Tour(city="Köln", stops=[Stop(name="Dom", minutes=12)])


@pytest.fixture
async def tours(bench: Bench) -> Bench:
    bench.worker(Role.PREFILL, pieces=PIECES)
    bench.worker(Role.DECODE, pieces=PIECES)
    return await bench.start()


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


@PATHS
async def test_an_answer_is_parsed_into_the_type_that_was_asked_for(tours: Bench, text: str) -> None:
    answer = await tours.strict.chat.completions.parse(**ask(text, response_format=Tour))
    assert answer.choices[0].message.parsed == TOUR
    grammar = tours.workers[1].reservations[0].sampling.grammar
    assert isinstance(grammar, JsonGrammar)
    schema = json.loads(grammar.schema)
    assert schema["required"] == ["city", "stops"]
    assert schema["additionalProperties"] is False
    assert "Stop" in schema["$defs"]


@PATHS
async def test_a_stream_is_parsed_as_it_comes(tours: Bench, text: str) -> None:
    async with tours.strict.chat.completions.stream(**ask(text, response_format=Tour)) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_completion()
    partly = [event.parsed for event in events if event.type == "content.delta"]
    assert {"city": "Köln", "stops": [{"name": "Dom", "minutes": 12}]} in partly
    assert [event.parsed for event in events if event.type == "content.done"] == [TOUR]
    assert final.choices[0].message.parsed == TOUR


async def test_an_answer_that_was_cut_is_not_taken_for_a_whole_one(tours: Bench) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        await tours.strict.chat.completions.parse(**ask(SHORT, response_format=Tour, max_tokens=2))
    with pytest.raises(openai.LengthFinishReasonError):
        async with tours.strict.chat.completions.stream(**ask(SHORT, response_format=Tour, max_tokens=2)) as stream:
            await stream.until_done()


async def test_any_object_may_be_asked_for(tours: Bench) -> None:
    answer = await tours.strict.chat.completions.create(**ask(SHORT, response_format={"type": "json_object"}))
    assert json.loads(answer.choices[0].message.content or "")["city"] == "Köln"
    grammar = tours.workers[1].reservations[0].sampling.grammar
    assert json.loads(grammar.schema) == {"type": "object"}


@pytest.mark.parametrize(
    ("response_format", "param"),
    [
        ({"type": "xml"}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "response_format.json_schema.schema"),
    ],
)
async def test_a_format_that_is_none_is_refused_by_name(tours: Bench, response_format: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await tours.strict.chat.completions.create(**ask(SHORT, response_format=response_format))
    assert caught.value.param == param
    assert not tours.workers[1].calls
