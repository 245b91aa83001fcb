"""Request ids and headers, as users of the official client reach them."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.inference.router.conftest import LONG, MODEL, SHORT, Bench

ASK: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": SHORT}]}


async def test_every_answer_has_a_request_id(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    client = bench.strict
    chat = await client.chat.completions.create(**ASK)
    text = await client.completions.create(model=MODEL, prompt=SHORT)
    models = await client.models.list()
    ids = [chat._request_id, text._request_id, models._request_id]
    assert all(each and each.startswith("req-") for each in ids)
    assert len(set(ids)) == 3
    stream = await client.chat.completions.create(**ASK, stream=True)
    assert stream.response.headers["x-request-id"].startswith("req-")
    await stream.close()


async def test_a_request_id_of_the_clients_own_goes_all_the_way(bench: Bench) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    headers = {"X-Request-Id": "order-66"}
    ask = ASK | {"messages": [{"role": "user", "content": LONG}]}
    answer = await bench.strict.chat.completions.create(**ask, extra_headers=headers)
    assert answer._request_id == "order-66"
    assert set(prefill.request_ids + decode.request_ids) == {"order-66"}
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.strict.chat.completions.create(**ASK, temperature=9, extra_headers=headers)
    assert caught.value.request_id == "order-66"


async def test_raw_answers_have_the_headers_and_the_answer(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    raw = await bench.strict.chat.completions.with_raw_response.create(**ASK)
    assert raw.headers["content-type"] == "application/json"
    assert raw.request_id == raw.headers["x-request-id"]
    assert raw.parse().choices[0].finish_reason == "stop"
    streamed = await bench.strict.chat.completions.with_raw_response.create(**ASK, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert [chunk async for chunk in streamed.parse()][-1].choices[0].finish_reason == "stop"


async def test_a_response_may_be_read_as_it_comes(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    asking = bench.strict.chat.completions.with_streaming_response.create(**ASK, stream=True)
    async with asking as response:
        lines = [line async for line in response.iter_lines()]
    assert lines[0].startswith("data: {")
    assert [line for line in lines if line][-1] == "data: [DONE]"
