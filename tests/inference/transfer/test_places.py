import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.transfer.places import Coverage, Slice, needed, slices


def cells(piece: Slice) -> list[tuple[int, int]]:
    return [(layer, token) for layer in piece.layers for token in range(piece.start, piece.end)]


@st.composite
def prompts(draw) -> tuple[tuple[range, ...], int]:
    """What is needed of a prompt, by layers with and without windows, and how long it is."""
    layers, tokens = draw(st.integers(1, 12)), draw(st.integers(1, 80))
    windows = draw(st.lists(st.one_of(st.none(), st.integers(1, 60)), min_size=layers, max_size=layers))
    return needed(layers, windows, tokens, draw(st.integers(0, tokens - 1))), tokens


@given(prompts(), st.integers(1, 64), st.integers(1, 20_000), st.integers(1, 80))
def test_slices_cover_what_is_needed_once_and_keep_the_limit(prompt, layer_token_bytes, limit, chunk):
    wanted, tokens = prompt
    pieces = [
        piece
        for start in range(0, tokens, chunk)
        for piece in slices(wanted, range(len(wanted)), start, min(start + chunk, tokens), layer_token_bytes, limit)
    ]
    covered = [cell for piece in pieces for cell in cells(piece)]
    assert sorted(covered) == [(layer, token) for layer, span in enumerate(wanted) for token in span]
    for piece in pieces:
        assert len(cells(piece)) * layer_token_bytes <= limit or len(cells(piece)) == 1


@given(prompts(), st.integers(1, 500), st.randoms(use_true_random=False))
def test_coverage_is_complete_with_the_last_piece_in_any_order(prompt, limit, order: random.Random):
    wanted, tokens = prompt
    pieces = list(slices(wanted, range(len(wanted)), 0, tokens, 8, limit))
    order.shuffle(pieces)
    coverage = Coverage(wanted)
    for piece in pieces:
        assert not coverage.complete
        coverage.add(piece)
    assert coverage.complete


@given(prompts(), st.integers(1, 500), st.data())
def test_nothing_is_taken_twice_or_outside_of_what_is_needed(prompt, limit, data):
    """Whatever is offered: it is taken if and only if every one of its places is needed and empty."""
    wanted, tokens = prompt
    coverage, empty = Coverage(wanted), {(layer, token) for layer, span in enumerate(wanted) for token in span}
    for _ in range(8):
        first, start = data.draw(st.integers(-1, len(wanted))), data.draw(st.integers(0, tokens))
        layers = range(first, data.draw(st.integers(first, len(wanted) + 1)))
        piece = Slice(layers, start, data.draw(st.integers(start, tokens + 1)))
        if cells(piece) and set(cells(piece)) <= empty:
            coverage.add(piece)
            empty -= set(cells(piece))
        else:
            with pytest.raises(TandemError) as refused:
                coverage.add(piece)
            assert refused.value.code is ErrorCode.TOKEN_COUNT_MISMATCH
        assert coverage.complete == (not empty)


def test_a_layer_with_a_window_needs_the_last_tokens_only():
    assert needed(3, (None, 4, 64), 10, 0) == (range(10), range(6, 10), range(10))


def test_what_the_receiver_holds_does_not_travel_again():
    assert needed(2, (None, 4), 10, 8) == (range(8, 10), range(8, 10))
    assert needed(2, (), 10, 0) == (range(10), range(10))
