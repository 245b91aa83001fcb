"""Where the tokens of one answer become text, and where it is decided that the answer ends.

A pure function of the token ids: prefill and decode worker both feed the first token into a stream of their own and so
agree on the text that was already given and on what is still held back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from inference.contracts.generation import ChosenLogprob
from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.engine.detokenizer import Detokenizer
from inference.engine.interface import Token
from inference.engine.sampling.sampled import RawLogprob
from inference.engine.stop_strings import StopFilter


class Ends(Protocol):
    """The part of a `Vocabulary` that a text stream needs."""

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer; their text is no part of it."""

    def told(self, token_id: int, raw: RawLogprob) -> ChosenLogprob: ...


class TextStream:
    """Text of one answer.

    decode: ids -> text, special tokens left out or not as was asked for. answer: which of the request's answers.
    """

    def __init__(
        self, decode: Callable[[list[int]], str], vocabulary: Ends, sampling: Sampling, *, answer: int = 0
    ) -> None:
        self._vocabulary = vocabulary
        self._ends = frozenset() if sampling.ignore_eos else vocabulary.ends
        self._min_tokens = sampling.min_tokens
        self._max_tokens = sampling.max_tokens
        self._detokenizer = Detokenizer(decode)
        self._stops = StopFilter(sampling.stop)
        self._answer = answer
        self.tokens = 0

    def push(self, token_id: int, raw: RawLogprob | None = None) -> Token:
        """The next token with the text that became certain. After one with `finish` set, none may follow."""
        self.tokens += 1
        text, finish = self._read(token_id)
        told = None if raw is None or token_id in self._ends else self._vocabulary.told(token_id, raw)
        return Token(token_id, text, finish, self._answer, told)

    def _read(self, token_id: int) -> tuple[str, FinishReason | None]:
        if token_id in self._ends:
            return self._rest(), FinishReason.STOP
        text, stopped = self._detokenizer.push(token_id), False
        if self.tokens >= self._min_tokens:
            text, stopped = self._stops.push(text)
        if stopped:
            return text, FinishReason.STOP
        if self.tokens >= self._max_tokens:
            return text + self._rest(), FinishReason.LENGTH
        return text, None

    def _rest(self) -> str:
        text, _ = self._stops.push(self._detokenizer.flush())
        return text + self._stops.flush()
