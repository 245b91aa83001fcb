"""Text completions through the official client."""

from __future__ import annotations

from typing import Any

import pytest

from inference.contracts.prompts import TextPrompt, TokenPrompt
from tests.inference.router.conftest import LONG, MODEL, SHORT, Bench
from tests.inference.router.scripted import PIECES

ANSWER = "".join(PIECES)
TOKENS = list(range(40))


@pytest.mark.parametrize("prompt", [SHORT, LONG, TOKENS], ids=["one worker", "two workers", "tokens"])
async def test_whole_and_streamed_answers_are_equal(bench: Bench, prompt: Any) -> None:
    bench.pair()
    await bench.start()
    whole = await bench.strict.completions.create(model=MODEL, prompt=prompt)
    assert whole.id.startswith("cmpl-")
    assert (whole.object, whole.model) == ("text_completion", MODEL)
    (choice,) = whole.choices
    assert (choice.index, choice.text, choice.finish_reason, choice.logprobs) == (0, ANSWER, "stop", None)
    assert whole.usage is not None
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (len(prompt), len(PIECES))

    asked: dict[str, Any] = {"model": MODEL, "prompt": prompt, "stream": True}
    options = {"include_usage": True}
    *chunks, last = [each async for each in await bench.openai.completions.create(**asked, stream_options=options)]
    assert "".join(chunk.choices[0].text for chunk in chunks) == ANSWER
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]
    assert (last.choices, last.usage) == ([], whole.usage)


async def test_a_prompt_is_a_text_or_tokens_or_a_list_of_either(bench: Bench) -> None:
    _, decode = bench.pair()
    await bench.start()
    for prompt, choices in (("a", 1), ([65, 66], 1), (["a", "b"], 2), ([[65], [66], [67]], 3)):
        answer = await bench.strict.completions.create(model=MODEL, prompt=prompt)
        assert [choice.index for choice in answer.choices] == list(range(choices))
        assert answer.usage is not None
        assert answer.usage.completion_tokens == choices * len(PIECES)
    prompts = [each.prompt for each in decode.reservations]
    assert prompts[:4] == [
        TextPrompt(text="a"),
        TokenPrompt(token_ids=(65, 66)),
        TextPrompt(text="a"),
        TextPrompt(text="b"),
    ]
    await bench.at_rest()
