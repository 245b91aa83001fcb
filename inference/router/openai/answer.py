"""Answers and stream chunks as OpenAI's clients expect them."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from inference.contracts import codec
from inference.contracts.generation import ChosenLogprob, Finished
from inference.contracts.states import FinishReason
from inference.contracts.timings import RequestTiming
from inference.router.openai.tool_calls.reader import CallDelta


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class _ChatLogprobs(msgspec.Struct, frozen=True):
    content: tuple[ChosenLogprob, ...]
    refusal: None = None


class _TextLogprobs(msgspec.Struct, frozen=True):
    """text_offset: where each token begins in the text of its answer, in characters."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


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


class _TextChoice(msgspec.Struct, frozen=True):
    text: str
    index: int
    finish_reason: FinishReason | None = None
    logprobs: _TextLogprobs | None = None


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """usage: left out of stream chunks that were not asked for it. tandem: stage times, on request."""

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Any]
    usage: Usage | UnsetType | None = UNSET
    tandem: RequestTiming | UnsetType = UNSET


class ChatAnswer(_Answer, frozen=True, kw_only=True):
    choices: list[_ChatChoice]


class ChatChunk(_Answer, frozen=True, kw_only=True):
    choices: list[_ChatChunkChoice]


class CompletionAnswer(_Answer, frozen=True, kw_only=True):
    choices: list[_TextChoice]


@dataclass(slots=True)
class Choice:
    """One answer, as far as it is there."""

    texts: list[str] = field(default_factory=list)
    logprobs: list[ChosenLogprob] = field(default_factory=list)
    calls: list[CallDelta] = field(default_factory=list)
    finish: FinishReason | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def add(self, delta: CallDelta) -> None:
        """More of a call."""
        if delta.index == len(self.calls):
            self.calls.append(delta)
        else:
            begun = self.calls[delta.index]
            self.calls[delta.index] = replace(begun, arguments=begun.arguments + delta.arguments)


def usage_of(finished: Sequence[Finished]) -> Usage:
    """The sum over the prompts of one request."""
    prompt = sum(each.prompt_tokens for each in finished)
    completion = sum(each.completion_tokens for each in finished)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptDetails(sum(each.cached_tokens for each in finished)),
    )


class Shape(Protocol):
    """How one endpoint lays its answers out. Everything returned is one JSON text."""

    def opening(self, index: int) -> bytes | None:
        """Goes before the first text of choice `index` of a stream."""

    def text(self, index: int, text: str, logprobs: Sequence[ChosenLogprob]) -> bytes: ...

    def call(self, index: int, delta: CallDelta) -> bytes: ...

    def closing(self, index: int, reason: FinishReason) -> bytes: ...

    def usage(self, usage: Usage) -> bytes: ...

    def whole(self, choices: Sequence[Choice], usage: Usage, timing: RequestTiming | None) -> bytes: ...


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


class CompletionShape:
    """Text completions. with_usage, with_logprobs: as in `ChatShape`."""

    def __init__(
        self, answer_id: str, created: int, model: str, *, with_usage: bool = False, with_logprobs: bool = False
    ) -> None:
        self._id = f"cmpl-{answer_id}"
        self._created = created
        self._model = model
        self._no_usage: UnsetType | None = None if with_usage else UNSET
        self._with_logprobs = with_logprobs
        self._offsets: defaultdict[int, _Offsets] = defaultdict(_Offsets)

    def opening(self, index: int) -> bytes | None:
        return None

    def text(self, index: int, text: str, logprobs: Sequence[ChosenLogprob]) -> bytes:
        told = _text_logprobs(logprobs, self._offsets[index]) if logprobs else None
        return self._answer([_TextChoice(text, index, None, told)], self._no_usage)

    def call(self, index: int, delta: CallDelta) -> bytes:
        raise TypeError("text completions have no tools")

    def closing(self, index: int, reason: FinishReason) -> bytes:
        return self._answer([_TextChoice("", index, reason)], self._no_usage)

    def usage(self, usage: Usage) -> bytes:
        return self._answer([], usage)

    def whole(self, choices: Sequence[Choice], usage: Usage, timing: RequestTiming | None) -> bytes:
        told = [_text_logprobs(choice.logprobs, _Offsets()) if self._with_logprobs else None for choice in choices]
        laid_out = [
            _TextChoice(choice.text, index, choice.finish, logprobs)
            for index, (choice, logprobs) in enumerate(zip(choices, told, strict=True))
        ]
        return self._answer(laid_out, usage, timing)

    def _answer(
        self, choices: list[_TextChoice], usage: Usage | UnsetType | None, timing: RequestTiming | None = None
    ) -> bytes:
        return codec.encode(
            CompletionAnswer(
                id=self._id,
                object="text_completion",
                created=self._created,
                model=self._model,
                choices=choices,
                usage=usage,
                tandem=UNSET if timing is None else timing,
            )
        )


class _Offsets:
    """Where tokens begin in a text: after as many characters as the bytes before them end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._characters = 0

    def next(self, octets: Sequence[int]) -> int:
        begins, self._characters = self._characters, self._characters + len(self._decoder.decode(bytes(octets)))
        return begins


def _text_logprobs(entries: Sequence[ChosenLogprob], offsets: _Offsets) -> _TextLogprobs:
    """The older layout of completions. The chosen token is among its alternatives, likely or not."""
    top = [
        {other.token: other.logprob for other in (*entry.top_logprobs, entry)} if entry.top_logprobs else None
        for entry in entries
    ]
    return _TextLogprobs(
        tokens=[entry.token for entry in entries],
        token_logprobs=[entry.logprob for entry in entries],
        top_logprobs=None if None in top else [each for each in top if each is not None],
        text_offset=[offsets.next(entry.bytes) for entry in entries],
    )
