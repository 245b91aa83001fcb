"""Answers and stream chunks of text completions."""

from __future__ import annotations

import codecs
from collections import defaultdict
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from inference.contracts import codec
from inference.contracts.generation import ChosenLogprob
from inference.contracts.states import FinishReason
from inference.contracts.timings import RequestTiming
from inference.router.openai.answer import HOLE, Answer, Choice, Usage, cut
from inference.router.openai.tool_calls.reader import CallDelta


class _TextLogprobs(msgspec.Struct, frozen=True):
    """text_offset: where each token begins in the text of its answer, in characters."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class _TextChoice(msgspec.Struct, frozen=True):
    text: str
    index: int
    finish_reason: FinishReason | None = None
    logprobs: _TextLogprobs | None = None


class CompletionAnswer(Answer, frozen=True, kw_only=True):
    choices: list[_TextChoice]


class CompletionShape:
    """Text completions. with_usage, with_logprobs: as in `chat_answer.ChatShape`."""

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

    def frame(self, index: int) -> tuple[bytes, bytes]:
        return cut(self.text(index, HOLE, ()))

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
