"""F29: usage comes exactly once, last and without choices, and only where it was asked for; it is what a whole answer
tells, and the prompt counts once though two workers saw it."""

from __future__ import annotations

import json

import pytest

from tests.inference.router.conftest import LONG, SHORT, Bench, events_of
from tests.inference.router.scripted import PIECES

NOT_ASKED = [{}, *({"stream_options": each} for each in (None, {}, {"include_usage": False}, {"include_usage": None}))]
ASKED = {"stream_options": {"include_usage": True}}
PATHS = pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])


def body_of(bench: Bench, path: str, text: str, **fields: object) -> dict[str, object]:
    asked = {"messages": [{"role": "user", "content": text}]} if "chat" in path else {"prompt": text}
    return {"model": bench.model, **asked, **fields}


async def chunks(bench: Bench, path: str, text: str, **fields: object) -> list[dict]:
    async with bench.http.post(path, json=body_of(bench, path, text, stream=True, **fields)) as answer:
        assert answer.status == 200, await answer.text()
        events = events_of(await answer.text())
    assert events.pop() == (None, "[DONE]")
    return [json.loads(data) for _, data in events]


@PATHS
@pytest.mark.parametrize("text", [SHORT, LONG])
async def test_usage_is_the_last_chunk_and_equals_that_of_a_whole_answer(bench: Bench, path: str, text: str) -> None:
    bench.pair()
    await bench.start()
    async with bench.http.post(path, json=body_of(bench, path, text)) as answer:
        whole = (await answer.json())["usage"]
    assert (whole["prompt_tokens"], whole["completion_tokens"]) == (len(text), len(PIECES))
    *told, last = await chunks(bench, path, text, **ASKED)
    assert (last["choices"], last["usage"]) == ([], whole)
    assert all(chunk["choices"] and chunk.get("usage") is None for chunk in told)
    assert {chunk["id"] for chunk in told} == {last["id"]}


@PATHS
@pytest.mark.parametrize("fields", NOT_ASKED)
async def test_usage_that_was_not_asked_for_does_not_come(bench: Bench, path: str, fields: dict[str, object]) -> None:
    bench.pair()
    await bench.start()
    told = await chunks(bench, path, LONG, **fields)
    assert all(chunk["choices"] and chunk.get("usage") is None for chunk in told)


@PATHS
async def test_options_of_a_stream_without_a_stream_are_refused(bench: Bench, path: str) -> None:
    workers = bench.pair()
    await bench.start()
    for stream in ({}, {"stream": False}, {"stream": None}):
        async with bench.http.post(path, json=body_of(bench, path, LONG, **ASKED, **stream)) as answer:
            assert answer.status == 400
            assert (await answer.json())["error"]["param"] == "stream_options"
    assert not any(worker.calls for worker in workers)
