"""Prompts -> token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import TemplateError

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.prompts import ChatPrompt, Prompt, TextPrompt
from inference.contracts.tools import ToolFormat
from inference.engine import tool_chat


def tokenize(tokenizer: Any, prompt: Prompt, vocab_size: int) -> list[int]:
    """See `Engine.tokenize`."""
    if isinstance(prompt, ChatPrompt):
        # The template writes special tokens itself; the tokenizer must not add a second beginning-of-sequence.
        ids = _encode(tokenizer, _lay_out(tokenizer, prompt), "messages", add_special_tokens=prompt.special_tokens)
    elif isinstance(prompt, TextPrompt):
        ids = _encode(tokenizer, prompt.text, "prompt", add_special_tokens=prompt.special_tokens)
    else:
        ids = list(prompt.token_ids)
    check_ids(ids, vocab_size)
    return ids


def tool_format(tokenizer: Any) -> ToolFormat | None:
    """How the model writes calls of tools; None for a base model, and where it is not known."""
    template = _template(tokenizer)
    return None if template is None else tool_chat.format_of(template)


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
    try:
        text: str = tokenizer.apply_chat_template(
            **_conversation(tokenizer, prompt), tokenize=False, add_generation_prompt=prompt.generation_prompt
        )
    except TemplateError as error:
        raise TandemError(
            ErrorCode.INVALID_REQUEST, f"the model's chat template refuses these messages: {error}", "messages"
        ) from error
    return text


def _conversation(tokenizer: Any, prompt: ChatPrompt) -> dict[str, Any]:
    """Messages and tools as the template takes them.

    Raises:
        TandemError(INVALID_REQUEST): its format of tools is not known, so calls could not be told from text.
    """
    template = _template(tokenizer) or ""
    if not tool_chat.knows_tools(template):
        return {"conversation": tool_chat.in_words_of_hermes(prompt.messages, prompt.tools)}
    known = tool_chat.format_of(template)
    if prompt.tools and known is None:
        formats = ", ".join(ToolFormat)
        raise TandemError(
            ErrorCode.INVALID_REQUEST,
            f"this model's chat template lays tools out in a format that can't be read here (known are: {formats})",
            "tools",
        )
    return {
        "conversation": [tool_chat.for_template(message, known) for message in prompt.messages],
        "tools": [tool_chat.described(tool) for tool in prompt.tools] or None,
    }


def _template(tokenizer: Any) -> str | None:
    """The chat template, where there are several the one for tools."""
    if not tokenizer.chat_template:
        return None
    template: str = tokenizer.get_chat_template(tools=[{}])
    return template


def _encode(tokenizer: Any, text: str, param: str, *, add_special_tokens: bool) -> list[int]:
    try:
        ids: list[int] = tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)["input_ids"]
    except (TypeError, UnicodeEncodeError) as error:  # half a surrogate pair: no text
        raise TandemError(ErrorCode.INVALID_REQUEST, "the text is not valid Unicode", param) from error
    return ids
