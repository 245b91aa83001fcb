"""The serving API of a running Tandem, as its users meet it, with the real model."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.stack import MODEL, Stack

pytestmark = pytest.mark.e2e

PROMPT = "Summarise: " + "Two riders share one bike; one looks ahead, one pushes. " * 12


@pytest.fixture
def client(stack: Stack) -> OpenAI:
    return OpenAI(base_url=f"{stack.router_url}/v1", api_key=stack.serving_key, max_retries=0)


def ask(client: OpenAI, content: str, **options: object) -> str:
    made = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": content}], temperature=0, **options
    )
    return made.choices[0].message.content or ""


def test_a_streamed_answer_equals_the_whole_one_after_a_hand_off(client: OpenAI) -> None:
    whole = ask(client, PROMPT, max_tokens=24)
    stream = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}], temperature=0, max_tokens=24, stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices) == whole
    assert whole


def test_the_model_knows_the_capital_of_france(client: OpenAI) -> None:
    assert "Paris" in ask(client, "What is the capital of France?", max_tokens=20)


def timing_of(client: OpenAI, content: str, *, system: str | None = None) -> dict[str, Any]:
    messages = [] if system is None else [{"role": "system", "content": system}]
    made = client.chat.completions.create(
        model=MODEL,
        messages=[*messages, {"role": "user", "content": content}],
        max_tokens=4,
        temperature=0,
        extra_headers={"X-Tandem-Timings": "1"},
    )
    assert made.model_extra is not None
    return made.model_extra["tandem"]


KV_BYTES_PER_TOKEN = 30 * 3 * 64 * 2 * 4  # layers, heads, their size, K and V, float32
BLOCK = 16

#: No other test begins a prompt so; it fills more than a block.
SYSTEM = "Nobody who asked before began with these words, and whoever asks later begins with others than these."


def test_long_prompts_are_handed_over_with_all_their_kv(client: OpenAI) -> None:
    """Bytes that decode received are what the prompt's KV weighs, so a hand-off can't silently not happen. Of a second
    prompt that begins alike, only what decode does not hold yet travels."""
    timing = timing_of(client, PROMPT, system=SYSTEM)
    assert timing["path"] == "handoff"
    assert timing["handoff_bytes"] == timing["prompt_tokens"] * KV_BYTES_PER_TOKEN
    assert sum(segment["seconds"] for segment in timing["segments"]) == pytest.approx(timing["ttft_s"], abs=1e-6)

    alike = timing_of(client, f"Again, please: {PROMPT}", system=SYSTEM)
    held, odd = divmod(alike["prompt_tokens"] * KV_BYTES_PER_TOKEN - alike["handoff_bytes"], BLOCK * KV_BYTES_PER_TOKEN)
    assert odd == 0
    assert 1 <= held < alike["prompt_tokens"] // BLOCK


def test_short_prompts_are_read_by_decode_itself(client: OpenAI) -> None:
    timing = timing_of(client, "Hi")
    assert timing["path"] == "local"
    assert timing["prefill_worker"] is None


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_exactly_as_many_tokens_as_asked_for(client: OpenAI, tokens: int) -> None:
    made = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=tokens, temperature=0)
    assert made.usage is not None
    assert made.usage.completion_tokens == tokens
    assert made.choices[0].finish_reason == "length"


def test_several_prompts_get_several_answers_with_their_log_probabilities(client: OpenAI) -> None:
    made = client.completions.create(model=MODEL, prompt=["One, two,", PROMPT], n=2, max_tokens=5, seed=1, logprobs=2)
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    for choice in made.choices:
        assert choice.logprobs is not None
        assert choice.text.startswith("".join(choice.logprobs.tokens or []))


def test_a_structured_answer_conforms_to_its_schema(client: OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "capital": {"type": "boolean"}},
        "required": ["city", "capital"],
        "additionalProperties": False,
    }
    made = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": f"{PROMPT}\nNow tell me about Paris, as JSON."}],
        max_tokens=100,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
    )
    told = json.loads(made.choices[0].message.content or "")
    assert set(told) == {"city", "capital"}
    assert isinstance(told["capital"], bool)


def test_a_seed_repeats_a_sampled_answer(client: OpenAI) -> None:
    def sampled() -> str:
        made = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=16, temperature=0.9, top_p=0.9, seed=7)
        return made.choices[0].text

    assert sampled() == sampled()


def test_the_models_list_names_the_deployment(client: OpenAI) -> None:
    assert [model.id for model in client.models.list().data] == [MODEL]


def test_a_wrong_key_is_401(stack: Stack) -> None:
    with pytest.raises(openai.AuthenticationError):
        OpenAI(base_url=f"{stack.router_url}/v1", api_key="sk-tandem-wrong", max_retries=0).models.list()


def test_an_unknown_model_is_404(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no-such-model"):
        client.completions.create(model="no-such-model", prompt="x")


def test_a_prompt_beyond_the_context_is_400(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=MODEL, prompt=[5] * 9000, max_tokens=1)
    assert caught.value.code == "context_length_exceeded"
