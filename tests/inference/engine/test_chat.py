from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import ChatMessage, ChatPrompt, Prompt, TextPrompt, TokenPrompt
from inference.engine.chat import tokenize
from inference.testing.tiny_model import BYTES, END_ID, VOCAB_SIZE

BOS_ID = BYTES


@pytest.fixture
def tokenizer(tiny_model: Callable[..., Path]) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model("llama"))


def chat(*turns: tuple[str, str]) -> ChatPrompt:
    return ChatPrompt(messages=tuple(ChatMessage(role=role, content=content) for role, content in turns))


def refusal(tokenizer: Any, prompt: Prompt) -> tuple[str, str | None]:
    with pytest.raises(TandemError) as caught:
        tokenize(tokenizer, prompt, VOCAB_SIZE)
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    return caught.value.message, caught.value.param


def test_chat_is_laid_out_by_the_template_with_a_generation_prompt(tokenizer: Any) -> None:
    ids = tokenize(tokenizer, chat(("system", "Be brief."), ("user", "Hi")), VOCAB_SIZE)
    assert tokenizer.decode(ids) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids.count(END_ID) == 2


def test_a_template_that_writes_the_first_token_gets_no_second_one(tokenizer: Any) -> None:
    tokenizer.bos_token = "<|im_start|>"
    tokenizer.add_bos_token = True
    assert tokenizer("Hi")["input_ids"][0] == BOS_ID
    tokenizer.chat_template = "{{ bos_token }}{{ messages[0]['content'] }}"
    assert tokenize(tokenizer, chat(("user", "Hi")), VOCAB_SIZE).count(BOS_ID) == 1
    assert tokenize(tokenizer, TextPrompt(text="Hi"), VOCAB_SIZE).count(BOS_ID) == 1


def test_text_is_taken_as_it_is(tokenizer: Any) -> None:
    assert tokenizer.decode(tokenize(tokenizer, TextPrompt(text="안녕 👍🏽\n"), VOCAB_SIZE)) == "안녕 👍🏽\n"


def test_token_ids_are_taken_as_they_are(tokenizer: Any) -> None:
    assert tokenize(tokenizer, TokenPrompt(token_ids=(0, 5, VOCAB_SIZE - 1)), VOCAB_SIZE) == [0, 5, VOCAB_SIZE - 1]


@pytest.mark.parametrize("bad", [-1, VOCAB_SIZE])
def test_a_token_id_out_of_range_is_refused_by_name(tokenizer: Any, bad: int) -> None:
    assert refusal(tokenizer, TokenPrompt(token_ids=(1, bad))) == (f"token id {bad} is not in 0..258", "prompt")


@pytest.mark.parametrize("prompt", [TextPrompt(text=""), TokenPrompt(token_ids=())])
def test_an_empty_prompt_is_refused(tokenizer: Any, prompt: Prompt) -> None:
    assert refusal(tokenizer, prompt) == ("the prompt is empty", "prompt")


def test_a_chat_without_messages_is_refused(tokenizer: Any) -> None:
    assert refusal(tokenizer, chat()) == ("there are no messages", "messages")


def test_a_base_model_points_to_completions(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    message, param = refusal(tokenizer, chat(("user", "Hi")))
    assert "no chat template" in message
    assert param == "messages"


def test_what_the_template_refuses_is_said_in_its_words(tokenizer: Any) -> None:
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    message, param = refusal(tokenizer, chat(("user", "a"), ("user", "b")))
    assert "roles must alternate" in message
    assert param == "messages"


def test_half_a_surrogate_pair_is_refused(tokenizer: Any) -> None:
    assert refusal(tokenizer, TextPrompt(text="x\ud83d")) == ("the text is not valid Unicode", "prompt")
