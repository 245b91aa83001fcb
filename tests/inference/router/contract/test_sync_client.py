"""The same with the official client that blocks: run in a thread, since the router lives on this event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import openai
import pytest
from openai import OpenAI

from inference.contracts.errors import ErrorCode
from tests.inference.router.conftest import KEY, LONG, MODEL, PATIENT, SHORT, Bench
from tests.inference.router.scripted import PIECES, Misstep

T = TypeVar("T")
ANSWER = "".join(PIECES)


def ask(text: str = LONG, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


async def with_client(bench: Bench, use: Callable[[OpenAI], T], **options: Any) -> T:
    def run() -> T:
        settings = {"max_retries": 0, "_strict_response_validation": True, **options}
        with OpenAI(base_url=f"{bench.url}/v1", api_key=KEY, **settings) as client:
            return use(client)

    return await asyncio.to_thread(run)


async def test_whole_streamed_and_by_the_helper(bench: Bench) -> None:
    bench.pair()
    await bench.start()

    def use(client: OpenAI) -> list[str | None]:
        whole = client.chat.completions.create(**ask()).choices[0].message.content
        chunks = list(client.chat.completions.create(**ask(stream=True)))
        with client.chat.completions.stream(**ask()) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion().choices[0].message.content
        text = client.completions.create(model=MODEL, prompt=LONG).choices[0].text
        return [whole, "".join(chunk.choices[0].delta.content or "" for chunk in chunks), "".join(deltas), final, text]

    assert await with_client(bench, use) == [ANSWER] * 5
    assert [model.id for model in await with_client(bench, lambda client: list(client.models.list()))] == [MODEL]
    await bench.at_rest()


async def test_leaving_a_stream_ends_it(bench: Bench) -> None:
    _, decode = bench.pair()
    decode.pieces, decode.pace_s = PIECES * 100, 0.05
    bench.deadlines = PATIENT
    await bench.start()

    def use(client: OpenAI) -> None:
        with client.chat.completions.create(**ask(SHORT, max_tokens=800, stream=True)) as stream:
            next(chunk for chunk in stream if chunk.choices[0].delta.content)

    await with_client(bench, use)
    await bench.at_rest()


async def test_errors_retries_and_raw_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    _, decode = bench.pair()
    bench.keys[0] = msgspec.structs.replace(bench.keys[0], requests_per_minute=2)
    decode.missteps["reserve"] = Misstep("refuse", ErrorCode.KV_FULL)
    await bench.start()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        decode.missteps.clear()

    monkeypatch.setattr("openai._base_client.time.sleep", sleep)

    def use(client: OpenAI) -> None:
        raw = client.chat.completions.with_raw_response.create(**ask())
        assert raw.retries_taken == 1
        assert raw.headers["x-ratelimit-remaining-requests"] == "1"
        assert raw.parse()._request_id == raw.headers["x-request-id"]
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**ask(temperature=3))
        client.chat.completions.create(**ask())
        with pytest.raises(openai.RateLimitError):
            client.with_options(max_retries=0).chat.completions.create(**ask())

    await with_client(bench, use, max_retries=2)
    assert len(waits) == 1
    assert waits[0] == int(waits[0]) >= 1
