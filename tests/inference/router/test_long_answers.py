"""Answers of far more text than any buffer holds: whole and in order, to clients that read at once and to those that
take their time."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.inference.router.conftest import LONG, SHORT, Bench, events_of

ASK = [{"role": "user", "content": LONG}]
PIECES = tuple(f"{number:04d} " + "x" * 400 for number in range(900))


def text_of(events: list[tuple[str | None, str]]) -> str:
    choices = [json.loads(data)["choices"] for name, data in events if name is None and data != "[DONE]"]
    return "".join(each["delta"].get("content", "") for some in choices for each in some)


@pytest.mark.parametrize("pace_s", [0.0, 0.0005])
@pytest.mark.parametrize("text", [SHORT, LONG])
async def test_a_long_answer_comes_whole_and_in_order(bench: Bench, text: str, pace_s: float) -> None:
    for worker in bench.pair():
        worker.pieces, worker.pace_s, worker.context_length = PIECES, pace_s, 10_000
    await bench.start()
    events = await bench.stream(text, max_tokens=len(PIECES))
    assert text_of(events) == "".join(PIECES)
    assert events[-1] == (None, "[DONE]")
    await bench.at_rest()


async def test_a_client_that_takes_its_time_gets_all_of_it(bench: Bench) -> None:
    for worker in bench.pair():
        worker.pieces, worker.context_length = PIECES, 10_000
    await bench.start()
    body = {"model": bench.model, "messages": ASK, "stream": True, "max_tokens": len(PIECES)}
    seen = b""
    async with bench.http.post("/v1/chat/completions", json=body) as answer:
        while piece := await answer.content.read(40_000):
            seen += piece
            await asyncio.sleep(0.01)
    assert text_of(events_of(seen.decode())) == "".join(PIECES)
    await bench.at_rest()
