"""The tokens of a model as bytes: what grammars are followed with, and what log-probabilities are told of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import llguidance.hf
from llguidance import LLTokenizer

from inference.contracts.generation import ChosenLogprob, TokenLogprob
from inference.engine.sampling.sampled import RawLogprob


class Vocabulary:
    """Made once per model: it takes about a second for 50,000 tokens, in which no other Python code runs.

    size: of the logits; may be more than the tokenizer knows. ends: tokens that end an answer.
    """

    def __init__(self, tokenizer: Any, size: int, ends: frozenset[int]) -> None:
        self.size = size
        self.ends = ends
        self.tokens: LLTokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=size, eos_token=sorted(ends) or None)
        self._told = lru_cache(maxsize=4096)(self._tell)

    def told(self, token_id: int, raw: RawLogprob) -> ChosenLogprob:
        """`raw` of the chosen `token_id`, in text."""
        text, octets = self._told(token_id)
        top = tuple(self._entry(other, logprob) for other, logprob in raw.top)
        return ChosenLogprob(token=text, logprob=raw.logprob, bytes=octets, top_logprobs=top)

    def special_id(self, text: str) -> int | None:
        """The special token that is `text`; None where it is spelt with ordinary ones."""
        ids = self.tokens.tokenize_str(text, parse_special=True)
        return ids[0] if len(ids) == 1 and self.tokens.is_special_token(ids[0]) else None

    def _entry(self, token_id: int, logprob: float) -> TokenLogprob:
        text, octets = self._told(token_id)
        return TokenLogprob(token=text, logprob=logprob, bytes=octets)

    def _tell(self, token_id: int) -> tuple[str, tuple[int, ...]]:
        octets: bytes = self.tokens.decode_bytes([token_id])
        return octets.decode("utf-8", "replace"), tuple(octets)
