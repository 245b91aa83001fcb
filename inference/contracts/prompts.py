"""What a model is to read: messages, a text, or tokens."""

from __future__ import annotations

import msgspec

from inference.contracts.tools import Tool, ToolCall


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True):
    """tool_calls: made by the model in this message. tool_call_id, name: of a message of role "tool", which call it
    answers and of which tool."""

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


class ChatPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="chat"):
    """Messages to be laid out by the model's chat template.

    tools: what the model may call. generation_prompt: an answer of the model is to follow. special_tokens: add those
    with which the tokenizer begins a text, besides what the template writes.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[Tool, ...] = ()
    generation_prompt: bool = True
    special_tokens: bool = False

    @property
    def version(self) -> int:
        """As of `Sampling`."""
        known = ChatPrompt(messages=tuple(ChatMessage(role=each.role, content=each.content) for each in self.messages))
        return 1 if self == known else 3


class TextPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """special_tokens: add those with which the tokenizer begins a text."""

    text: str
    special_tokens: bool = True

    @property
    def version(self) -> int:
        """As of `Sampling`."""
        return 1 if self.special_tokens else 3


class TokenPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="tokens"):
    token_ids: tuple[int, ...]

    @property
    def version(self) -> int:
        """As of `Sampling`."""
        return 1


Prompt = ChatPrompt | TextPrompt | TokenPrompt
