from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.sampling import Sampling
from inference.contracts.states import FinishReason
from inference.engine.interface import Token
from inference.engine.sampling.sampled import RawLogprob
from inference.engine.text_stream import TextStream
from tests.inference.engine.recorder import Numbers

EOS = 0


def decode(ids: list[int]) -> str:
    return bytes(i for i in ids if i != EOS).decode("utf-8", "replace")


def run(data: bytes, **fields: object) -> list[Token]:
    """Feed bytes until the answer ends."""
    stream = TextStream(decode, Numbers(frozenset({EOS})), Sampling(**({"max_tokens": 100} | fields)))
    tokens: list[Token] = []
    for byte in data:
        tokens.append(stream.push(byte))
        if tokens[-1].finish is not None:
            break
    return tokens


def text_of(tokens: list[Token]) -> str:
    return "".join(token.text for token in tokens)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_exactly_max_tokens_are_made(limit: int) -> None:
    tokens = run(b"abcdef", max_tokens=limit)
    assert text_of(tokens) == "abc"[:limit]
    assert [token.finish for token in tokens] == [None] * (limit - 1) + [FinishReason.LENGTH]


def test_end_of_sequence_ends_the_answer_and_is_no_text() -> None:
    tokens = run(b"ab\x00cd")
    assert text_of(tokens) == "ab"
    assert tokens[-1] == Token(EOS, "", FinishReason.STOP)


def test_an_answer_may_end_with_its_first_token() -> None:
    assert run(b"\x00") == [Token(EOS, "", FinishReason.STOP)]


def test_end_of_sequence_as_last_allowed_token_is_a_stop() -> None:
    assert run(b"a\x00", max_tokens=2)[-1].finish is FinishReason.STOP


def test_end_of_sequence_can_be_ignored() -> None:
    tokens = run(b"a\x00b", max_tokens=3, ignore_eos=True)
    assert (text_of(tokens), tokens[-1].finish) == ("ab", FinishReason.LENGTH)


def test_a_stop_string_ends_the_answer_without_leaking() -> None:
    tokens = run(b"so END more", stop=("END",))
    assert text_of(tokens) == "so "
    assert tokens[-1].finish is FinishReason.STOP
    assert len(tokens) == len("so END")


def test_a_stop_string_in_the_very_first_token() -> None:
    assert run(b"x", stop=("x",)) == [Token(ord("x"), "", FinishReason.STOP)]


def test_a_stop_string_completed_by_the_last_allowed_token_is_a_stop() -> None:
    assert run(b"ab", stop=("ab",), max_tokens=2)[-1] == Token(ord("b"), "", FinishReason.STOP)


def test_text_held_for_a_stop_string_is_given_when_the_answer_ends_otherwise() -> None:
    assert run(b"E\x00", stop=("END",))[-1].text == "E"
    assert run(b"xEN", stop=("END",), max_tokens=3)[-1].text == "EN"


def test_a_character_cut_by_the_limit_is_given_once() -> None:
    assert text_of(run("가".encode(), max_tokens=2)) == "\N{REPLACEMENT CHARACTER}"


def test_nothing_ends_an_answer_before_its_least_tokens_but_the_stop_string_that_comes_then() -> None:
    tokens = run(b"END END", stop=("END",), min_tokens=5)
    assert (text_of(tokens), tokens[-1].finish) == ("END ", FinishReason.STOP)
    assert len(tokens) == len("END END")


def test_an_end_of_sequence_tells_no_log_probability_and_every_other_token_does() -> None:
    stream = TextStream(decode, Numbers(frozenset({EOS})), Sampling(max_tokens=9, logprobs=0), answer=2)
    raw = RawLogprob(-0.5, ())
    tokens = [stream.push(ord("a"), raw), stream.push(EOS, raw)]
    assert [token.logprob and token.logprob.logprob for token in tokens] == [-0.5, None]
    assert [token.answer for token in tokens] == [2, 2]


@given(st.binary(max_size=30), st.lists(st.text("abEND", min_size=1, max_size=3), max_size=2).map(tuple))
def test_two_streams_fed_alike_agree_on_every_piece(data: bytes, stop: tuple[str, ...]) -> None:
    assert run(data, stop=stop) == run(data, stop=stop)
