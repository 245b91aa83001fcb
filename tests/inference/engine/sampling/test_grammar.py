from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from inference.contracts.errors import ErrorCode, TandemError
from inference.contracts.sampling import JsonGrammar
from inference.engine.sampling.grammar import Follower, Grammars
from inference.engine.sampling.sampled import RawLogprob
from inference.engine.sampling.vocabulary import Vocabulary
from inference.testing.tiny_model import END_ID, VOCAB_SIZE

PADDED = VOCAB_SIZE + 5
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def vocabulary(tiny_model: Callable[[str], Path]) -> Vocabulary:
    return Vocabulary(AutoTokenizer.from_pretrained(tiny_model("llama")), PADDED, frozenset({END_ID}))


@pytest.fixture(scope="module")
def grammars(vocabulary: Vocabulary) -> Iterator[Grammars]:
    made = Grammars(vocabulary)
    yield made
    made.close()


@pytest.fixture(scope="module")
def bytes_of(vocabulary: Vocabulary) -> dict[bytes, int]:
    return {vocabulary.tokens.decode_bytes([token]): token for token in range(256)}


def schema(described: object) -> JsonGrammar:
    return JsonGrammar(schema=json.dumps(described))


def walk(grammars: Grammars, grammar: JsonGrammar, seed: int, bytes_of: dict[bytes, int]) -> str:
    """An answer drawn evenly among the tokens that may come."""
    follower, rng, answer = grammars.follow(grammar), np.random.default_rng(seed), b""
    back = {token: octet for octet, token in bytes_of.items()}
    for _ in range(600):
        allowed = follower.allowed()
        assert allowed.shape == (PADDED,)
        if allowed[END_ID] and (len(answer) > 60 or allowed.sum() == 1):
            return answer.decode()
        token = int(rng.choice(np.flatnonzero(allowed & (np.arange(PADDED) < 256))))
        answer += back[token]
        follower.accept(token)
    raise AssertionError(f"no end after {answer!r}")


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_drawn_conforms_to_the_schema(grammars, bytes_of, seed: int) -> None:
    person = json.loads(walk(grammars, schema(PERSON), seed, bytes_of))
    assert set(person) == {"name", "age"}
    assert isinstance(person["age"], int)
    assert len(person["name"]) <= 8


def test_ends_may_come_only_when_the_answer_is_whole(grammars: Grammars, bytes_of: dict[bytes, int]) -> None:
    follower = grammars.follow(schema({"type": "boolean"}))
    for octet in b"true":
        assert not follower.allowed()[END_ID]
        follower.accept(bytes_of[bytes([octet])])
    assert follower.allowed()[END_ID]
    follower.accept(END_ID)


def test_followers_of_one_grammar_are_apart(grammars: Grammars, bytes_of: dict[bytes, int]) -> None:
    one, other = grammars.follow(schema(PERSON)), grammars.follow(schema(PERSON))
    one.accept(bytes_of[b"{"])
    assert not np.array_equal(one.allowed(), other.allowed())
    other.accept(bytes_of[b"{"])
    assert np.array_equal(one.allowed(), other.allowed())


def test_white_space_comes_to_an_end(grammars: Grammars, bytes_of: dict[bytes, int]) -> None:
    follower: Follower = grammars.follow(schema({"type": "object"}))
    follower.accept(bytes_of[b"{"])
    for _ in range(32):
        assert follower.allowed()[bytes_of[b" "]]
        follower.accept(bytes_of[b" "])
    assert not follower.allowed()[bytes_of[b" "]]


@pytest.mark.parametrize(
    "described",
    [
        "no schema",
        [],
        {"type": "nope"},
        {"$ref": "#/nowhere"},
        {"not": {"type": "string"}},
        {"type": "string", "pattern": "(?=x)"},
        {"type": "string", "format": "strange"},
    ],
)
def test_a_schema_that_can_not_be_followed_is_refused_by_name(grammars: Grammars, described: Any) -> None:
    with pytest.raises(TandemError) as caught:
        grammars.follow(schema(described))
    assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_REQUEST, "response_format")


def test_a_token_against_the_grammar_ends_the_request_and_nothing_else(grammars, bytes_of: dict[bytes, int]) -> None:
    follower = grammars.follow(schema(PERSON))
    follower.accept(bytes_of[b"x"])
    with pytest.raises(TandemError) as caught:
        follower.allowed()
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert grammars.follow(schema(PERSON)).allowed()[bytes_of[b"{"]]


def test_a_hostile_schema_is_refused_or_fails_its_own_answer(grammars: Grammars, bytes_of: dict[bytes, int]) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        deep = {"type": "object", "properties": {"a": deep}}
    with pytest.raises(TandemError, match="recursion"):
        grammars.follow(schema(deep))
    wide = grammars.follow(schema({"anyOf": [{"type": "object", "required": [f"k{i}"]} for i in range(3000)]}))
    wide.accept(bytes_of[b"{"])
    with pytest.raises(TandemError, match="could not be followed any further"):
        wide.allowed()
    assert grammars.follow(schema(PERSON)).allowed()[bytes_of[b"{"]]


def test_a_model_without_ends_takes_no_grammar(tiny_model: Callable[[str], Path]) -> None:
    endless = Vocabulary(AutoTokenizer.from_pretrained(tiny_model("llama")), VOCAB_SIZE, frozenset())
    grammars = Grammars(endless)
    with pytest.raises(TandemError, match="never end"):
        grammars.follow(schema(PERSON))
    grammars.close()


def test_a_token_is_told_as_the_bytes_that_it_stands_for(vocabulary: Vocabulary, bytes_of: dict[bytes, int]) -> None:
    half = bytes_of["é".encode()[:1]]
    told = vocabulary.told(half, RawLogprob(-1.5, ((bytes_of[b"a"], -0.5), (END_ID, -2.0))))
    assert (told.token, told.bytes, told.logprob) == ("\N{REPLACEMENT CHARACTER}", (0xC3,), -1.5)
    assert [(top.token, top.logprob) for top in told.top_logprobs] == [("a", -0.5), ("<|im_end|>", -2.0)]
