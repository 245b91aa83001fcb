"""Prompts -> token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.generation import ChatPrompt, Prompt, TextPrompt


def tokenize(tokenizer: Any, prompt: Prompt, vocab_size: int) -> list[int]:
    """See `Engine.tokenize`."""
    if isinstance(prompt, ChatPrompt):
        # The template writes special tokens itself; the tokenizer must not add a second beginning-of-sequence.
        ids = _encode(tokenizer, _lay_out(tokenizer, prompt), "messages", add_special_tokens=False)
    elif isinstance(prompt, TextPrompt):
        ids = _encode(tokenizer, prompt.text, "prompt", add_special_tokens=True)
    else:
        ids = list(prompt.token_ids)
    check_ids(ids, vocab_size)
    return ids


def check_ids(token_ids: Sequence[int], vocab_size: int) -> None:
    """Refuse a prompt that the model has no embeddings for; on a GPU such an id would end the process.

    Raises:
        TandemError(INVALID_REQUEST): the prompt is empty or an id is out of range.
    """
    if not token_ids:
        raise TandemError(ErrorCode.INVALID_REQUEST, "the prompt is empty", "prompt")
    strange = next((i for i in token_ids if not 0 <= i < vocab_size), None)
    if strange is not None:
        raise TandemError(ErrorCode.INVALID_REQUEST, f"token id {strange} is not in 0..{vocab_size - 1}", "prompt")


def _lay_out(tokenizer: Any, prompt: ChatPrompt) -> str:
    if not prompt.messages:
        raise TandemError(ErrorCode.INVALID_REQUEST, "there are no messages", "messages")
    if not tokenizer.chat_template:
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            "this model has no chat template (it is a base model): use completions instead of chat",
            "messages",
        )
    messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        raise TandemError(
            ErrorCode.INVALID_REQUEST, f"the model's chat template refuses these messages: {error}", "messages"
        ) from error
    return text


def _encode(tokenizer: Any, text: str, param: str, *, add_special_tokens: bool) -> list[int]:
    try:
        ids: list[int] = tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"]
    except (TypeError, UnicodeEncodeError) as error:  # half a surrogate pair: no text
        raise TandemError(ErrorCode.INVALID_REQUEST, "the text is not valid Unicode", param) from error
    return ids
