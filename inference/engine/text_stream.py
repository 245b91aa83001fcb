"""Where the tokens of one answer become text, and where it is decided that the answer ends.

A pure function of the token ids: prefill and decode worker both feed the first token into a stream of their own and so
agree on the text that was already given and on what is still held back.
"""

from __future__ import annotations

from collections.abc import Callable

from inference.contracts.generation import Sampling
from inference.contracts.states import FinishReason
from inference.engine.detokenizer import Detokenizer
from inference.engine.interface import Token
from inference.engine.stop_strings import StopFilter


class TextStream:
    """Text of one answer.

    decode: ids -> text, special tokens left out. eos_ids: the tokens that end an answer; their text is no part of it.
    """

    def __init__(self, decode: Callable[[list[int]], str], eos_ids: frozenset[int], sampling: Sampling) -> None:
        self._eos_ids = frozenset() if sampling.ignore_eos else eos_ids
        self._max_tokens = sampling.max_tokens
        self._detokenizer = Detokenizer(decode)
        self._stops = StopFilter(sampling.stop)
        self.tokens = 0

    def push(self, token_id: int) -> Token:
        """The next token with the text that became certain. After one with `finish` set, none may follow."""
        self.tokens += 1
        if token_id in self._eos_ids:
            return Token(token_id, self._rest(), FinishReason.STOP)
        text, stopped = self._stops.push(self._detokenizer.push(token_id))
        if stopped:
            return Token(token_id, text, FinishReason.STOP)
        if self.tokens >= self._max_tokens:
            return Token(token_id, text + self._rest(), FinishReason.LENGTH)
        return Token(token_id, text, None)

    def _rest(self) -> str:
        text, _ = self._stops.push(self._detokenizer.flush())
        return text + self._stops.flush()
