"""Each field of a request through the official client: it reaches the worker, or is refused by its name before any
worker is asked."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.inference.router.conftest import MODEL, SHORT, Bench

#: field, value, what the worker is told: the name in `Sampling` and the value there.
CHAT = [
    ("max_tokens", 5, "max_tokens", 5),
    ("max_completion_tokens", 6, "max_tokens", 6),
    ("n", 3, "n", 3),
    ("temperature", 0.3, "temperature", 0.3),
    ("temperature", 0, "temperature", 0),
    ("top_p", 0.9, "top_p", 0.9),
    ("presence_penalty", -1.5, "presence_penalty", -1.5),
    ("frequency_penalty", 0.5, "frequency_penalty", 0.5),
    ("logit_bias", {"7": -100}, "logit_bias", {7: -100.0}),
    ("seed", 42, "seed", 42),
    ("stop", "x", "stop", ("x",)),
    ("stop", ["a", "b", "c", "d"], "stop", ("a", "b", "c", "d")),
]

#: Those that OpenAI does not have, sent as `extra_body`.
EXTRA = [
    ("top_k", 20, "top_k", 20),
    ("min_p", 0.1, "min_p", 0.1),
    ("repetition_penalty", 1.2, "repetition_penalty", 1.2),
    ("ignore_eos", True, "ignore_eos", True),
    ("min_tokens", 3, "min_tokens", 3),
    ("skip_special_tokens", False, "special_tokens", True),
]


async def sampling_of(bench: Bench, fields: dict[str, Any], *, chat: bool) -> Any:
    _, decode = bench.pair()
    await bench.start()
    if chat:
        messages: Any = [{"role": "user", "content": SHORT}]
        await bench.strict.chat.completions.create(model=MODEL, messages=messages, **fields)
    else:
        await bench.strict.completions.create(model=MODEL, prompt=SHORT, **fields)
    return decode.reservations[0].sampling


@pytest.mark.parametrize(("field", "value", "name", "told"), CHAT)
async def test_chats(bench: Bench, field: str, value: Any, name: str, told: Any) -> None:
    assert getattr(await sampling_of(bench, {field: value}, chat=True), name) == told


@pytest.mark.parametrize(("field", "value", "name", "told"), [each for each in CHAT if "completion" not in each[0]])
async def test_completions(bench: Bench, field: str, value: Any, name: str, told: Any) -> None:
    assert getattr(await sampling_of(bench, {field: value}, chat=False), name) == told


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "completion"])
@pytest.mark.parametrize(("field", "value", "name", "told"), EXTRA)
async def test_fields_that_vllm_has_too(bench: Bench, chat: bool, field: str, value: Any, name: str, told: Any) -> None:
    assert getattr(await sampling_of(bench, {"extra_body": {field: value}}, chat=chat), name) == told


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [({"logprobs": True}, 0), ({"logprobs": True, "top_logprobs": 5}, 5), ({"logprobs": False}, None)],
)
async def test_log_probabilities_of_chats(bench: Bench, fields: dict[str, Any], logprobs: int | None) -> None:
    assert (await sampling_of(bench, fields, chat=True)).logprobs == logprobs


REFUSED_IN_CHATS: list[tuple[dict[str, Any], str]] = [
    ({"n": 0}, "n"),
    ({"n": 129}, "n"),
    ({"temperature": 2.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"1": 101}}, "logit_bias.1"),
    ({"logit_bias": {"7": 1, "50256": None}}, "logit_bias.50256"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"max_tokens": 2, "max_completion_tokens": 3}, "max_completion_tokens"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stop": ""}, "stop"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"seed": "x"}, "seed"),
    ({"modalities": ["text", "audio"]}, "modalities"),
    ({"audio": {"format": "mp3", "voice": "alloy"}}, "audio"),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"reasoning_effort": "high"}, "reasoning_effort"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"extra_body": {"best_of": 2}}, "best_of"),
    ({"extra_body": {"top_k": -2}}, "top_k"),
    ({"extra_body": {"min_p": 1.1}}, "min_p"),
    ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty"),
    ({"extra_body": {"min_tokens": 9, "max_tokens": 3}}, "min_tokens"),
    ({"extra_body": {"stop_token_ids": [1]}}, "stop_token_ids"),
    ({"extra_body": {"guided_json": {}}}, "guided_json"),
    ({"extra_body": {"prompt_logprobs": 1}}, "prompt_logprobs"),
    ({"extra_body": {"chat_template": "x"}}, "chat_template"),
    ({"extra_body": {"echo": True}}, "echo"),
    ({"extra_body": {"documents": [{}]}}, "documents"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED_IN_CHATS, ids=[str(fields) for fields, _ in REFUSED_IN_CHATS])
async def test_what_is_not_offered_in_a_chat_is_refused_by_name(
    bench: Bench, fields: dict[str, Any], param: str
) -> None:
    prefill, decode = bench.pair()
    await bench.start()
    messages: Any = [{"role": "user", "content": SHORT}]
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.strict.chat.completions.create(model=MODEL, messages=messages, **fields)
    assert caught.value.param == param
    assert caught.value.code in ("invalid_request", "unsupported_parameter")
    assert param in caught.value.message
    assert not prefill.calls
    assert not decode.calls


REFUSED_IN_COMPLETIONS: list[tuple[dict[str, Any], str]] = [
    ({"best_of": 3}, "best_of"),
    ({"n": 1, "best_of": 2}, "best_of"),
    ({"suffix": "x"}, "suffix"),
    ({"logprobs": 21}, "logprobs"),
    ({"echo": True, "logprobs": 1}, "echo"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": [-1]}, "prompt"),
    ({"prompt": ["a"] * 65}, "prompt"),
    ({"extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ({"extra_body": {"prompt_embeds": "x"}}, "prompt_embeds"),
    ({"extra_body": {"tools": [{"type": "function"}]}}, "tools"),
]


@pytest.mark.parametrize(
    ("fields", "param"), REFUSED_IN_COMPLETIONS, ids=[str(fields)[:40] for fields, _ in REFUSED_IN_COMPLETIONS]
)
async def test_what_is_not_offered_in_a_completion_is_refused_by_name(
    bench: Bench, fields: dict[str, Any], param: str
) -> None:
    _, decode = bench.pair()
    await bench.start()
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.strict.completions.create(**{"model": MODEL, "prompt": SHORT, **fields})
    assert caught.value.param == param
    assert not decode.calls


@pytest.mark.parametrize("part", ["image_url", "input_audio", "file"])
async def test_what_is_no_text_is_refused_with_its_place(bench: Bench, part: str) -> None:
    _, decode = bench.pair()
    await bench.start()
    content = [{"type": "text", "text": "What is this?"}, {"type": part, part: {}}]
    messages: Any = [{"role": "user", "content": content}]
    with pytest.raises(openai.BadRequestError) as caught:
        await bench.strict.chat.completions.create(model=MODEL, messages=messages)
    assert caught.value.param == "messages[0].content[1].type"
    assert not decode.calls
