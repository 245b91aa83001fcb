"""Chats through the official client: whole, streamed, and by its streaming helper."""

from __future__ import annotations

from typing import Any

import pytest

from inference.contracts.states import Role
from tests.inference.router.conftest import LONG, MODEL, SHORT, Bench
from tests.inference.router.scripted import PIECES

ANSWER = "".join(PIECES)
PATHS = pytest.mark.parametrize("text", [SHORT, LONG], ids=["one worker", "two workers"])


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


@PATHS
async def test_whole_and_streamed_answers_are_equal(bench: Bench, text: str) -> None:
    bench.pair()
    await bench.start()
    whole = await bench.strict.chat.completions.create(**ask(text))
    assert whole.id.startswith("chatcmpl-")
    assert (whole.object, whole.model) == ("chat.completion", MODEL)
    (choice,) = whole.choices
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None)
    assert (choice.message.role, choice.message.content) == ("assistant", ANSWER)
    assert (choice.message.refusal, choice.message.tool_calls) == (None, None)
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (len(text), len(PIECES))
    assert whole.usage.total_tokens == len(text) + len(PIECES)

    chunks = [chunk async for chunk in await bench.strict.chat.completions.create(**ask(text, stream=True))]
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant", *[None] * (len(chunks) - 1)]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [*[None] * (len(chunks) - 1), "stop"]
    assert all(chunk.usage is None for chunk in chunks)


@PATHS
async def test_usage_comes_last_where_it_was_asked_for(bench: Bench, text: str) -> None:
    bench.worker(Role.PREFILL, cached_tokens=3)
    bench.worker(Role.DECODE, cached_tokens=3)
    await bench.start()
    whole = await bench.strict.chat.completions.create(**ask(text))
    asked = ask(text, stream=True, stream_options={"include_usage": True})
    *chunks, last = [chunk async for chunk in await bench.strict.chat.completions.create(**asked)]
    assert all(chunk.usage is None and len(chunk.choices) == 1 for chunk in chunks)
    assert (last.choices, last.usage) == ([], whole.usage)
    assert last.usage is not None
    assert last.usage.prompt_tokens_details is not None
    assert last.usage.prompt_tokens_details.cached_tokens == 3


@PATHS
async def test_the_streaming_helper_tells_events_and_the_whole(bench: Bench, text: str) -> None:
    bench.pair()
    await bench.start()
    whole = await bench.strict.chat.completions.create(**ask(text))
    for completions in (bench.strict.chat.completions, bench.strict.beta.chat.completions):
        async with completions.stream(**ask(text, stream_options={"include_usage": True})) as stream:
            events = [event async for event in stream]
            final = await stream.get_final_completion()
        deltas = [event for event in events if event.type == "content.delta"]
        assert "".join(event.delta for event in deltas) == ANSWER
        assert all(ANSWER.startswith(event.snapshot) for event in deltas)
        assert [event.content for event in events if event.type == "content.done"] == [ANSWER]
        assert final.choices[0].message.content == ANSWER
        assert final.choices[0].finish_reason == "stop"
        assert final.usage == whole.usage


async def test_the_streaming_helper_waits_for_the_whole_by_itself(bench: Bench) -> None:
    bench.pair()
    await bench.start()
    async with bench.strict.chat.completions.stream(**ask(LONG)) as stream:
        assert (await stream.get_final_completion()).choices[0].message.content == ANSWER


async def test_roles_and_parts_of_contents_are_taken_as_the_client_writes_them(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is "}, {"type": "text", "text": "a tandem?"}]},
        {"role": "assistant", "content": "A bicycle for two."},
        {"role": "user", "content": "And KV?", "name": "ann"},
    ]
    await bench.strict.chat.completions.create(model=MODEL, messages=messages)
    read = [(each.role, each.content) for each in decode.reservations[0].prompt.messages]
    assert read == [
        ("system", "Be brief."),
        ("user", "What is a tandem?"),
        ("assistant", "A bicycle for two."),
        ("user", "And KV?"),
    ]


async def test_what_can_not_change_an_answer_is_ignored(bench: Bench) -> None:
    """Fields that the client offers and that are about storing, billing, tracing or speed."""
    bench.pair()
    await bench.start()
    ignored = {
        "user": "ann",
        "metadata": {"team": "a"},
        "store": False,
        "service_tier": "auto",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prediction": {"type": "content", "content": "a guess, which could make it faster"},
    }
    answer = await bench.strict.chat.completions.create(**ask(SHORT, **ignored))
    assert answer.choices[0].message.content == ANSWER
