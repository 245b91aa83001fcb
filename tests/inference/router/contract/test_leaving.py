"""Streams of the official client that are left before their end: nothing goes on for nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inference.contracts.states import Role
from tests.inference.router.conftest import LONG, MODEL, PATIENT, SHORT, Bench, eventually
from tests.inference.router.scripted import PIECES

PATHS = pytest.mark.parametrize("text", [SHORT, LONG], ids=["one worker", "two workers"])


async def slow(bench: Bench) -> Bench:
    """Answers that take for ever."""
    bench.worker(Role.PREFILL, pieces=PIECES * 100)
    bench.worker(Role.DECODE, pieces=PIECES * 100).pace_s = 0.05
    bench.deadlines = PATIENT
    return await bench.start()


def ask(text: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 800}


@PATHS
async def test_leaving_the_context_of_a_stream_ends_it(bench: Bench, text: str) -> None:
    await slow(bench)
    async with await bench.strict.chat.completions.create(**ask(text), stream=True) as stream:
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
    await bench.at_rest()


@PATHS
async def test_leaving_the_context_of_the_helper_ends_it(bench: Bench, text: str) -> None:
    await slow(bench)
    async with bench.strict.chat.completions.stream(**ask(text)) as stream:
        async for event in stream:
            if event.type == "content.delta" and event.delta:
                break
    await bench.at_rest()


async def test_a_stream_that_is_closed_ends(bench: Bench) -> None:
    await slow(bench)
    stream = await bench.openai.completions.create(model=MODEL, prompt=SHORT, max_tokens=800, stream=True)
    await anext(aiter(stream))
    await stream.close()
    await bench.at_rest()


@PATHS
async def test_a_call_that_is_cancelled_ends(bench: Bench, text: str) -> None:
    await slow(bench)
    asking = asyncio.create_task(bench.strict.chat.completions.create(**ask(text)))
    await eventually(lambda: bench.workers[1].streams["generate"] == 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await bench.at_rest()
