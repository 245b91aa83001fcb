"""Prompts that are no chats: a text, token ids, or a list of either."""

from __future__ import annotations

from typing import Any

from inference.contracts.prompts import Prompt, TextPrompt, TokenPrompt
from inference.router.errors import bad_request
from inference.router.openai.body import kind_of
from inference.router.openai.sampling import LARGEST

_TOKENS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_ONE = {"anyOf": [{"type": "string"}, _TOKENS]}


def prompt_schema(most: int) -> dict[str, Any]:
    """The JSON Schema of a prompt, or of a list of up to `most`."""
    return {"anyOf": [*_ONE["anyOf"], {"type": "array", "items": _ONE, "minItems": 1, "maxItems": most}]}


def read_prompts(prompt: object, field: str, most: int) -> tuple[Prompt, ...]:
    """The prompt in `field`, or the list of up to `most` of them.

    Raises:
        ApiError: 400.
    """
    if not isinstance(prompt, list) or not prompt or not all(isinstance(item, str | list) for item in prompt):
        return (_prompt(prompt, field),)
    if len(prompt) > most:
        raise bad_request(f"{field} holds {len(prompt)} prompts: at most {most} are allowed.", field)
    return tuple(_prompt(item, field) for item in prompt)


def _prompt(prompt: object, field: str) -> Prompt:
    if isinstance(prompt, str):
        return TextPrompt(text=prompt)
    if not isinstance(prompt, list) or not prompt:
        raise bad_request(f"{field} must be a text or a list of token ids, not {kind_of(prompt)}.", field)
    if all(isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= LARGEST for item in prompt):
        return TokenPrompt(token_ids=tuple(prompt))
    raise bad_request(f"{field} must be a text or a list of token ids from 0 to {LARGEST}.", field)
