"""Structured output: which tokens may come next such that the answer becomes what was asked for.

llguidance does the parsing. The next mask is computed on a thread of its own as soon as a token is accepted, so that it
is there when the model has computed the logits; masks take some 10 to 100 microseconds without Python's lock.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor

import llguidance.numpy
import numpy as np
from llguidance import LLMatcher

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import Grammar
from inference.contracts.tools import ToolFormat, ToolGrammar
from inference.engine.sampling import tool_grammar
from inference.engine.sampling.vocabulary import Vocabulary
from inference.structured import schema

_KEPT = 64


class Grammars:
    """Compiles grammars for one vocabulary and keeps those used last. Thread-safe.

    tool_format: how the model writes calls of tools; None where that is not known.
    """

    def __init__(self, vocabulary: Vocabulary, tool_format: ToolFormat | None = None) -> None:
        self._vocabulary = vocabulary
        self._tool_format = tool_format
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    def follow(self, grammar: Grammar) -> Follower:
        """A follower at the beginning of an answer. The first of a grammar compiles it, which takes milliseconds, and
        up to a third of a second for the most complex one that is not refused.

        Raises:
            TandemError(INVALID_REQUEST): this grammar can't be followed, or this model can't end an answer.
        """
        with self._lock:
            known = self._compiled.get(grammar)
        compiled = known or self._compile(grammar)  # without the lock: others go on meanwhile
        with self._lock:
            matcher = self._compiled.setdefault(grammar, compiled)
            self._compiled.move_to_end(grammar)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
            return Follower(matcher.deep_copy(), self._vocabulary, self._thread, schema.field_of(grammar))

    def close(self) -> None:
        """End the thread of the masks."""
        self._thread.shutdown(wait=False)

    def _compile(self, grammar: Grammar) -> LLMatcher:
        field = schema.field_of(grammar)
        if not self._vocabulary.ends:
            raise _refused(field, "this model has no end of sequence, so a structured answer would never end")
        try:
            rules = self._rules(grammar)
        except ValueError as error:
            raise _refused(field, f"the schema can't be read: {error}") from error
        matcher = LLMatcher(self._vocabulary.tokens, rules, log_level=0, limits=schema.LIMITS)
        if matcher.is_error():
            raise _refused(field, f"the schema can't be followed: {matcher.get_error()}")
        return matcher

    def _rules(self, grammar: Grammar) -> str:
        if not isinstance(grammar, ToolGrammar):
            return schema.rules(grammar.schema)
        if self._tool_format is None:
            raise _refused("tools", "how this model writes calls of tools is not known here")
        return tool_grammar.rules(grammar, self._tool_format, self._vocabulary.special_id, schema.WHITE_SPACE)


class Follower:
    """How far one answer has come in its grammar. Used by one thread at a time.

    field: where clients name the grammar.
    """

    def __init__(self, matcher: LLMatcher, vocabulary: Vocabulary, thread: ThreadPoolExecutor, field: str) -> None:
        self._field = field
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._thread = thread
        self._mask: Future[np.ndarray] = thread.submit(self._next_mask)

    def allowed(self) -> np.ndarray:
        """Which tokens may come next: bool [vocabulary]. An end of sequence may where the answer is complete.

        Raises:
            TandemError(INVALID_REQUEST): the grammar is too complex to be followed from here.
        """
        return self._mask.result()

    def accept(self, token_id: int) -> None:
        """`token_id` has come. Nothing follows an end of sequence."""
        if token_id not in self._vocabulary.ends:
            self._mask = self._thread.submit(self._next_mask, token_id)

    def _next_mask(self, token_id: int | None = None) -> np.ndarray:
        if token_id is not None:
            self._matcher.consume_token(token_id)
        words = llguidance.numpy.allocate_token_bitmask(1, self._vocabulary.size)
        if not self._matcher.is_error():
            llguidance.numpy.fill_next_token_bitmask(self._matcher, words)
        if self._matcher.is_error():
            raise _refused(self._field, f"the schema could not be followed any further: {self._matcher.get_error()}")
        return np.unpackbits(words.view(np.uint8), bitorder="little")[: self._vocabulary.size].view(np.bool_)


def _refused(field: str, reason: str) -> TandemError:
    return TandemError(ErrorCode.INVALID_REQUEST, f"{field}: {reason}", field)
