"""Answers and stream chunks as OpenAI's clients expect them."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from inference.contracts import codec
from inference.contracts.generation import Finished
from inference.contracts.routing import DeploymentRoute
from inference.contracts.states import FinishReason
from inference.contracts.timings import RequestTiming


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class _ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class _ChatChunkChoice(msgspec.Struct, frozen=True):
    delta: _ChatDelta
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: None = None


class _ChatMessage(msgspec.Struct, frozen=True):
    content: str
    role: str = "assistant"
    refusal: None = None


class _ChatChoice(msgspec.Struct, frozen=True):
    message: _ChatMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: None = None


class _TextChoice(msgspec.Struct, frozen=True):
    text: str
    finish_reason: FinishReason | None
    index: int = 0
    logprobs: None = None


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """usage: left out of stream chunks that were not asked for it. tandem: stage times, on request."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Any]
    usage: Usage | UnsetType | None = UNSET
    tandem: RequestTiming | UnsetType = UNSET


def usage_of(finished: Finished) -> Usage:
    return Usage(
        prompt_tokens=finished.prompt_tokens,
        completion_tokens=finished.completion_tokens,
        total_tokens=finished.prompt_tokens + finished.completion_tokens,
        prompt_tokens_details=PromptDetails(finished.cached_tokens),
    )


class Shape(Protocol):
    """How one endpoint lays its answers out. Everything returned is one JSON text."""

    def opening(self) -> bytes | None:
        """Goes before the first text of a stream."""

    def text(self, text: str) -> bytes: ...

    def closing(self, reason: FinishReason) -> bytes: ...

    def usage(self, finished: Finished) -> bytes: ...

    def whole(self, text: str, finished: Finished, timing: RequestTiming | None) -> bytes: ...


class ChatShape:
    """Chat completions. with_usage: chunks carry `usage`, null but in the last one."""

    def __init__(self, answer_id: str, created: int, model: str, with_usage: bool = False) -> None:
        self._id = f"chatcmpl-{answer_id}"
        self._created = created
        self._model = model
        self._no_usage: UnsetType | None = None if with_usage else UNSET

    def opening(self) -> bytes | None:
        return self._chunk([_ChatChunkChoice(_ChatDelta(role="assistant", content=""))], self._no_usage)

    def text(self, text: str) -> bytes:
        return self._chunk([_ChatChunkChoice(_ChatDelta(content=text))], self._no_usage)

    def closing(self, reason: FinishReason) -> bytes:
        return self._chunk([_ChatChunkChoice(_ChatDelta(), reason)], self._no_usage)

    def usage(self, finished: Finished) -> bytes:
        return self._chunk([], usage_of(finished))

    def whole(self, text: str, finished: Finished, timing: RequestTiming | None) -> bytes:
        return codec.encode(
            _Answer(
                id=self._id,
                object="chat.completion",
                created=self._created,
                model=self._model,
                choices=[_ChatChoice(_ChatMessage(text), finished.reason)],
                usage=usage_of(finished),
                tandem=UNSET if timing is None else timing,
            )
        )

    def _chunk(self, choices: list[_ChatChunkChoice], usage: Usage | UnsetType | None) -> bytes:
        return codec.encode(
            _Answer(
                id=self._id,
                object="chat.completion.chunk",
                created=self._created,
                model=self._model,
                choices=choices,
                usage=usage,
            )
        )


class CompletionShape:
    """Text completions. with_usage: chunks carry `usage`, null but in the last one."""

    def __init__(self, answer_id: str, created: int, model: str, with_usage: bool = False) -> None:
        self._id = f"cmpl-{answer_id}"
        self._created = created
        self._model = model
        self._no_usage: UnsetType | None = None if with_usage else UNSET

    def opening(self) -> bytes | None:
        return None

    def text(self, text: str) -> bytes:
        return self._answer([_TextChoice(text, None)], self._no_usage)

    def closing(self, reason: FinishReason) -> bytes:
        return self._answer([_TextChoice("", reason)], self._no_usage)

    def usage(self, finished: Finished) -> bytes:
        return self._answer([], usage_of(finished))

    def whole(self, text: str, finished: Finished, timing: RequestTiming | None) -> bytes:
        return self._answer([_TextChoice(text, finished.reason)], usage_of(finished), timing)

    def _answer(
        self, choices: list[_TextChoice], usage: Usage | UnsetType | None, timing: RequestTiming | None = None
    ) -> bytes:
        return codec.encode(
            _Answer(
                id=self._id,
                object="text_completion",
                created=self._created,
                model=self._model,
                choices=choices,
                usage=usage,
                tandem=UNSET if timing is None else timing,
            )
        )


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "tandem"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: list[ModelEntry]
    object: Literal["list"] = "list"


def model_list(deployments: list[DeploymentRoute]) -> ModelList:
    """One entry per model name that clients can ask for."""
    created: dict[str, int] = {}
    for deployment in deployments:
        name = deployment.model_name
        created[name] = min(created.get(name, deployment.created), deployment.created)
    return ModelList(data=[ModelEntry(id=name, created=at) for name, at in created.items()])
