from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference.engine.detokenizer import Detokenizer


def decode_bytes(ids: list[int]) -> str:
    """A byte-level decoder: one token per byte, broken UTF-8 replaced as real ones do."""
    return bytes(ids).decode("utf-8", "replace")


def decode_words(ids: list[int]) -> str:
    """A sentencepiece-like decoder: words with leading spaces, of which the very first is dropped."""
    return "".join(f" w{i}" for i in ids)[1:]


def pieces(data: bytes) -> list[str]:
    detokenizer = Detokenizer(decode_bytes)
    return [*(detokenizer.push(byte) for byte in data), detokenizer.flush()]


@pytest.mark.parametrize(
    "text", ["👍🏽", "👩‍👩‍👧‍👦", "안녕하세요", "e\u0301a\u0308", "naïve — ok", "\N{REPLACEMENT CHARACTER} kept"]
)
def test_characters_that_span_tokens_are_given_whole(text: str) -> None:
    out = pieces(text.encode())
    assert "".join(out) == text
    if "\N{REPLACEMENT CHARACTER}" not in text:
        assert all("\N{REPLACEMENT CHARACTER}" not in piece for piece in out)


def test_a_cut_character_is_given_once_at_the_end() -> None:
    assert pieces("가".encode()[:2]) == ["", "", "\N{REPLACEMENT CHARACTER}"]


def test_an_invalid_byte_does_not_stall_the_stream() -> None:
    out = pieces(b"a\xffb")
    assert out == ["a", "", "\N{REPLACEMENT CHARACTER}b", ""]
    endless = pieces(b"\xff" * 50)
    assert max(len(piece) for piece in endless) <= 3
    assert all(endless[4:-1])


def test_a_valid_character_after_an_invalid_byte_survives() -> None:
    assert "".join(pieces(b"\xff" + "👍".encode())) == "\N{REPLACEMENT CHARACTER}👍"


def test_only_the_first_leading_space_is_dropped() -> None:
    detokenizer = Detokenizer(decode_words)
    assert [detokenizer.push(i) for i in (1, 2, 3)] == ["w1", " w2", " w3"]


@given(st.lists(st.one_of(st.binary(max_size=3), st.text(max_size=3).map(str.encode)), max_size=12).map(b"".join))
@example(b"\xf0\x9f\x91\xff\xf0\x9f\x91\x8d")
def test_pieces_add_up_to_the_whole(data: bytes) -> None:
    assert "".join(pieces(data)) == data.decode("utf-8", "replace")
