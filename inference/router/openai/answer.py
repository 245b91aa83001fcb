"""What the answers of both endpoints have in common, as OpenAI's clients expect them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, UnsetType

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


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """usage: left out of stream chunks that were not asked for it. tandem: stage times, on request."""

    id: str
    object: str
    created: int
    model: str
    choices: Sequence[Any]
    usage: Usage | UnsetType | None = UNSET
    tandem: RequestTiming | UnsetType = UNSET


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


#: Stands for a text in a chunk that is cut there. Nothing after the text of a chunk comes from outside.
HOLE = "@"


def cut(chunk: bytes) -> tuple[bytes, bytes]:
    """What is before and after `HOLE` in a chunk."""
    before, _, after = chunk.rpartition(b'"@"')
    return before, after


class Shape(Protocol):
    """How one endpoint lays its answers out. Everything returned is one JSON text."""

    def opening(self, index: int) -> bytes | None:
        """Goes before the first text of choice `index` of a stream."""

    def text(self, index: int, text: str, logprobs: Sequence[ChosenLogprob]) -> bytes: ...

    def frame(self, index: int) -> tuple[bytes, bytes]:
        """What is before and after the JSON string of a text that has no log-probabilities, in each of its chunks: most
        of a stream is this."""

    def call(self, index: int, delta: CallDelta) -> bytes: ...

    def closing(self, index: int, reason: FinishReason) -> bytes: ...

    def usage(self, usage: Usage) -> bytes: ...

    def whole(self, choices: Sequence[Choice], usage: Usage, timing: RequestTiming | None) -> bytes: ...
