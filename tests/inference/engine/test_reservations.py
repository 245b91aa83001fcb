from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.block_manager import Extent
from inference.engine.reservations import Reservations, SlotMap


@pytest.fixture
def reservations() -> Reservations:
    return Reservations(8, block_size=4)


def test_capacity_is_rounded_up_to_whole_blocks(reservations: Reservations) -> None:
    assert reservations.reserve(5).capacity == 8
    assert reservations.used_blocks == 2


def test_more_than_is_free_now_is_kv_full(reservations: Reservations) -> None:
    reservations.reserve(20)
    with pytest.raises(TandemError) as caught:
        reservations.reserve(13)
    assert caught.value.code == ErrorCode.KV_FULL
    assert reservations.used_blocks == 5


def test_more_than_there_ever_is_exceeds_the_context(reservations: Reservations) -> None:
    with pytest.raises(TandemError) as caught:
        reservations.reserve(33)
    assert caught.value.code == ErrorCode.CONTEXT_LENGTH_EXCEEDED


def test_releasing_twice_frees_once(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    other = reservations.reserve(4)
    reservations.release(handle)
    reservations.release(handle)
    assert reservations.used_blocks == 1
    with reservations.pin(other):
        pass


def test_a_pinned_handle_keeps_its_blocks_until_the_last_pin_is_gone(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    with reservations.pin(handle):
        with reservations.pin(handle):
            reservations.release(handle)
            assert reservations.used_blocks == 1
        assert reservations.used_blocks == 1
    assert reservations.used_blocks == 0


def test_a_released_handle_can_not_be_pinned(reservations: Reservations) -> None:
    handle = reservations.reserve(4)
    reservations.release(handle)
    with pytest.raises(ValueError, match="not reserved"), reservations.pin(handle):
        pass


def test_tokens_beyond_the_reservation_have_no_slot() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        SlotMap((Extent(0, 1),), 4).spans(0, 5)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_spans_name_the_slots_of_tokens_in_order(lengths: list[int], data: st.DataObject) -> None:
    extents, start = [], 3
    for length in lengths:
        extents.append(Extent(start, length))
        start += length + 2
    every = [slot for extent in extents for slot in range(extent.start * 4, extent.end * 4)]
    begin = data.draw(st.integers(0, len(every)))
    end = data.draw(st.integers(begin, len(every)))
    slot_map = SlotMap(tuple(extents), 4)
    assert slot_map.slots(begin, end) == every[begin:end]
    assert all(length > 0 for _, length in slot_map.spans(begin, end))
