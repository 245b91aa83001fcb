from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.stop_strings import StopFilter


def run(stops: tuple[str, ...], pieces: list[str]) -> tuple[list[str], bool]:
    """What comes out piece by piece, the flushed rest last, and whether it stopped."""
    stop_filter = StopFilter(stops)
    out = []
    for piece in pieces:
        text, stopped = stop_filter.push(piece)
        out.append(text)
        if stopped:
            return out, True
    return [*out, stop_filter.flush()], False


@pytest.mark.parametrize(
    ("stops", "pieces", "out", "stopped"),
    [
        (("END",), ["so ", "E", "ND"], ["so ", "", ""], True),
        (("END",), ["so E", "N", "X"], ["so ", "", "ENX", ""], False),
        (("aab",), ["a", "a", "a", "b"], ["", "", "a", ""], True),
        (("EN", "END"), ["E", "N", "D"], ["", ""], True),
        (("END!", "END"), ["EN", "D!"], ["", ""], True),
        (("END",), ["END"], [""], True),
        (("x", "abc"), ["ab", "x"], ["", "ab"], True),
        (("END",), ["E", "N"], ["", "", "EN"], False),
        ((), ["any", "thing"], ["any", "thing", ""], False),
    ],
    ids=["spans pieces", "false start", "overlap", "prefix first", "prefix last", "at once", "other", "cut", "none"],
)
def test_no_part_of_a_stop_string_passes(stops, pieces, out, stopped) -> None:
    assert run(stops, pieces) == (out, stopped)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(TandemError) as caught:
        StopFilter(("x", ""))
    assert (caught.value.code, caught.value.param) == (ErrorCode.INVALID_REQUEST, "stop")


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3).map(tuple),
    st.lists(st.text("ab", max_size=3), max_size=12),
)
def test_text_up_to_the_first_match_comes_out_whatever_the_pieces(stops: tuple[str, ...], pieces: list[str]) -> None:
    out, stopped = run(stops, pieces)
    given_text, whole = "".join(out), "".join(pieces)
    assert stopped == any(stop in whole for stop in stops)
    if not stopped:
        assert given_text == whole
    else:
        assert any(whole.startswith(given_text + stop) for stop in stops)
        assert not any(stop in given_text for stop in stops)
