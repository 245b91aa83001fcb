"""Answers and stream chunks of chats."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from inference.contracts import codec
from inference.contracts.generation import ChosenLogprob
from inference.contracts.states import FinishReason
from inference.contracts.timings import RequestTiming
from inference.router.openai.answer import HOLE, Answer, Choice, Usage, cut
from inference.router.openai.tool_calls.reader import CallDelta


class _ChatLogprobs(msgspec.Struct, frozen=True):
    content: tuple[ChosenLogprob, ...]
    refusal: None = None


class _Function(msgspec.Struct, frozen=True, omit_defaults=True):
    arguments: str
    name: str | None = None


class _ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """index: in streams, where the first piece of a call alone has id and type."""

    function: _Function
    index: int | UnsetType = UNSET
    id: str | None = None
    type: str | None = None


class _ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None
    tool_calls: tuple[_ToolCall, ...] = ()


class _ChatChunkChoice(msgspec.Struct, frozen=True):
    delta: _ChatDelta
    index: int
    finish_reason: FinishReason | None = None
    logprobs: _ChatLogprobs | None = None


class _ChatMessage(msgspec.Struct, frozen=True):
    """content: null where there is nothing but calls."""

    content: str | None
    role: str = "assistant"
    refusal: None = None
    tool_calls: list[_ToolCall] | UnsetType = UNSET


class _ChatChoice(msgspec.Struct, frozen=True):
    message: _ChatMessage
    index: int
    finish_reason: FinishReason | None
    logprobs: _ChatLogprobs | None


class ChatAnswer(Answer, frozen=True, kw_only=True):
    choices: list[_ChatChoice]


class ChatChunk(Answer, frozen=True, kw_only=True):
    choices: list[_ChatChunkChoice]


class ChatShape:
    """Chat completions. with_usage: chunks carry `usage`, null but in the last one. with_logprobs: they were asked
    for."""

    def __init__(
        self, answer_id: str, created: int, model: str, *, with_usage: bool = False, with_logprobs: bool = False
    ) -> None:
        self._id = f"chatcmpl-{answer_id}"
        self._created = created
        self._model = model
        self._no_usage: UnsetType | None = None if with_usage else UNSET
        self._with_logprobs = with_logprobs

    def opening(self, index: int) -> bytes | None:
        return self._chunk([_ChatChunkChoice(_ChatDelta(role="assistant", content=""), index)], self._no_usage)

    def text(self, index: int, text: str, logprobs: Sequence[ChosenLogprob]) -> bytes:
        told = _ChatLogprobs(tuple(logprobs)) if logprobs else None
        return self._chunk([_ChatChunkChoice(_ChatDelta(content=text), index, None, told)], self._no_usage)

    def frame(self, index: int) -> tuple[bytes, bytes]:
        return cut(self.text(index, HOLE, ()))

    def call(self, index: int, delta: CallDelta) -> bytes:
        called = _ToolCall(
            _Function(delta.arguments, delta.name),
            delta.index,
            delta.call_id,
            None if delta.call_id is None else "function",
        )
        return self._chunk([_ChatChunkChoice(_ChatDelta(tool_calls=(called,)), index)], self._no_usage)

    def closing(self, index: int, reason: FinishReason) -> bytes:
        return self._chunk([_ChatChunkChoice(_ChatDelta(), index, reason)], self._no_usage)

    def usage(self, usage: Usage) -> bytes:
        return self._chunk([], usage)

    def whole(self, choices: Sequence[Choice], usage: Usage, timing: RequestTiming | None) -> bytes:
        return codec.encode(
            ChatAnswer(
                id=self._id,
                object="chat.completion",
                created=self._created,
                model=self._model,
                choices=[self._choice(index, choice) for index, choice in enumerate(choices)],
                usage=usage,
                tandem=UNSET if timing is None else timing,
            )
        )

    def _choice(self, index: int, choice: Choice) -> _ChatChoice:
        told = _ChatLogprobs(tuple(choice.logprobs)) if self._with_logprobs else None
        calls = [
            _ToolCall(_Function(call.arguments, call.name), id=call.call_id, type="function") for call in choice.calls
        ]
        message = _ChatMessage(choice.text or None, tool_calls=calls) if calls else _ChatMessage(choice.text)
        return _ChatChoice(message, index, choice.finish, told)

    def _chunk(self, choices: list[_ChatChunkChoice], usage: Usage | UnsetType | None) -> bytes:
        return codec.encode(
            ChatChunk(
                id=self._id,
                object="chat.completion.chunk",
                created=self._created,
                model=self._model,
                choices=choices,
                usage=usage,
            )
        )
