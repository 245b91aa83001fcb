"""Split or whole, streamed or not: the same greedy tokens as `transformers.generate`, over real processes.

Three ways to the same answer: `apart` hands every prompt over, `together` is one unified worker, and `generate` runs
here. Everything computes in float32 on CPU, where equality is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests.rest import Operator, wait_for
from tests.stack import Stack

pytestmark = pytest.mark.e2e

TOKENS = 20
FOX = "The quick brown fox jumps over the lazy dog. "
CODE = "def fibonacci(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n"
PROMPTS = [
    "Hi",
    "What is the capital of France?",
    "Count from one to ten.",
    "Name three colours.",
    "안녕하세요, 자기소개를 해 주세요.",
    "서울의 날씨는 어떤가요? 짧게 대답해 주세요.",
    "다음 문장을 영어로 옮겨 주세요: 두 사람이 한 자전거를 탄다.",
    "What does 🚲🚲 mean? Answer with emoji 😀👩‍🚀.",
    "👋🏽",
    "Translate 'good morning' to French, German and Spanish.",
    f"Explain this code:\n```python\n{CODE}```",
    "Write a Python function that reverses a list.",
    "SELECT name FROM riders WHERE bike = 'tandem'; -- what does it return?",
    '{"role": "stoker", "pedals": true} is this valid JSON?',
    "a",
    "   leading and trailing spaces   ",
    "Line one\nLine two\n\nLine four",
    "Summarise: " + FOX * 10,
    "Summarise: " + FOX * 60,
    "Repeat the last word of this text: " + "uno dos tres cuatro cinco seis siete ocho " * 40,
]


@pytest.fixture(scope="module")
def operator(stack: Stack) -> Operator:
    return Operator(stack.console_url, stack.admin_password)


@pytest.fixture(scope="module")
def deployments(operator: Operator) -> Iterator[None]:
    model = operator.items("/models")[0]["name"]
    operator.post("/deployments", name="apart", model=model, prefill=1, decode=1, local_prefill_tokens=0)
    operator.post("/deployments", name="together", model=model, prefill=0, decode=0, unified=1)
    for name in ("apart", "together"):
        wait_for(lambda name=name: operator.get(f"/deployments/{name}")["serving"], 180)
    yield
    removals = [operator.delete(f"/deployments/{name}")["operation"]["id"] for name in ("apart", "together")]
    assert all(operator.wait_for_operation(removal)["state"] == "succeeded" for removal in removals)


@pytest.fixture(scope="module")
def expected(default_model_dir: Path) -> list[str]:
    """What `generate` writes for each prompt; imports torch only here."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(default_model_dir)
    model: Any = AutoModelForCausalLM.from_pretrained(default_model_dir, dtype=torch.float32).eval()
    texts = []
    for prompt in PROMPTS:
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            out = model.generate(**ids, do_sample=False, max_new_tokens=TOKENS)
        texts.append(tokenizer.decode(out[0, ids["input_ids"].shape[1] :], skip_special_tokens=True))
    return texts


@pytest.fixture
def client(stack: Stack, deployments: None) -> OpenAI:
    return OpenAI(base_url=f"{stack.router_url}/v1", api_key=stack.serving_key, max_retries=0)


def whole(client: OpenAI, model: str, prompt: str) -> tuple[str, dict[str, Any]]:
    made = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": prompt}],
        max_tokens=TOKENS,
        temperature=0,
        extra_headers={"X-Tandem-Timings": "1"},
    )
    assert made.model_extra is not None
    return made.choices[0].message.content or "", made.model_extra["tandem"]


def streamed(client: OpenAI, model: str, prompt: str) -> str:
    stream = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": prompt}], max_tokens=TOKENS, temperature=0, stream=True
    )
    return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


def test_a_handed_over_answer_is_what_generate_writes(client: OpenAI, expected: list[str]) -> None:
    answers = [whole(client, "apart", prompt) for prompt in PROMPTS]
    assert {timing["path"] for _, timing in answers} == {"handoff"}
    for _, timing in answers:  # what decode holds of an earlier prompt does not travel
        assert timing["handoff_bytes"] % 46_080 == 0
        assert 0 < timing["handoff_bytes"] <= timing["prompt_tokens"] * 46_080
    assert [complete(text) for text, _ in answers] == [complete(text) for text in expected]


def test_a_streamed_handed_over_answer_is_what_generate_writes(client: OpenAI, expected: list[str]) -> None:
    assert [complete(streamed(client, "apart", prompt)) for prompt in PROMPTS] == [complete(text) for text in expected]


def test_an_aggregated_answer_is_what_generate_writes(client: OpenAI, expected: list[str]) -> None:
    answers = [whole(client, "together", prompt) for prompt in PROMPTS]
    assert {timing["path"] for _, timing in answers} == {"local"}
    assert [complete(text) for text, _ in answers] == [complete(text) for text in expected]


def complete(text: str) -> str:
    """Without a character that the token limit cut: `generate` shows its first bytes as U+FFFD, however many."""
    return text.rstrip("\ufffd")
