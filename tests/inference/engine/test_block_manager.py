from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.block_manager import BlockManager, Extent, _window_max


def blocks_of(extents: tuple[Extent, ...]) -> set[int]:
    return {block for extent in extents for block in range(extent.start, extent.end)}


def test_blocks_come_in_one_extent_while_a_run_is_long_enough() -> None:
    manager = BlockManager(10)
    assert manager.allocate(4) == (Extent(0, 4),)
    assert manager.allocate(6) == (Extent(4, 6),)


def test_the_tightest_run_is_used_so_that_long_ones_stay_whole() -> None:
    manager = BlockManager(10)
    hole, _wall, _rest = manager.allocate(2), manager.allocate(1), None
    assert hole is not None
    manager.free(hole)
    assert manager.allocate(2) == (Extent(0, 2),)
    assert manager.allocate(7) == (Extent(3, 7),)


def test_a_fragmented_arena_gives_several_extents() -> None:
    manager = BlockManager(6)
    singles = [manager.allocate(1) for _ in range(6)]
    for extents in singles[::2]:
        assert extents is not None
        manager.free(extents)
    got = manager.allocate(3)
    assert got is not None
    assert blocks_of(got) == {0, 2, 4}
    assert len(got) == 3


def test_too_much_is_refused_and_takes_nothing() -> None:
    manager = BlockManager(4)
    assert manager.allocate(3) is not None
    assert manager.allocate(2) is None
    assert manager.used == 3
    assert manager.allocate(1) is not None


@pytest.mark.parametrize("extent", [Extent(0, 1), Extent(1, 2), Extent(3, 9), Extent(-1, 1)])
def test_a_block_that_is_not_in_use_can_not_be_freed(extent: Extent) -> None:
    manager = BlockManager(4)
    manager.free(manager.allocate(2) or ())
    with pytest.raises(ValueError, match="not in use"):
        manager.free((extent,))
    assert manager.used == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=60))
def test_blocks_are_never_given_twice_and_all_come_back(steps: list[tuple[bool, int]]) -> None:
    manager = BlockManager(24)
    held: list[tuple[Extent, ...]] = []
    for take, amount in steps:
        if take:
            got = manager.allocate(amount)
            assert (got is None) == (amount > 24 - sum(len(blocks_of(extents)) for extents in held))
            if got is not None:
                assert len(blocks_of(got)) == amount
                assert not any(blocks_of(got) & blocks_of(extents) for extents in held)
                held.append(got)
        elif held:
            manager.free(held.pop(amount % len(held)))
        assert manager.used == sum(len(blocks_of(extents)) for extents in held)
    for extents in held:
        manager.free(extents)
    assert manager.allocate(24) == (Extent(0, 24),)


def test_blocks_that_are_worth_something_are_given_away_last_and_the_least_first() -> None:
    manager = BlockManager(4)
    for block, worth in ((0, 3.0), (1, 1.0), (3, 2.0)):
        manager.value(block, worth)
    assert [manager.allocate(1) for _ in range(4)] == [(Extent(block, 1),) for block in (2, 1, 3, 0)]


def test_of_runs_the_one_whose_best_block_is_worth_least_is_given_away() -> None:
    manager = BlockManager(6)
    for block, worth in enumerate((5.0, 1.0, 9.0, 4.0, 3.0, 1.0)):
        manager.value(block, worth)
    assert manager.allocate(2) == (Extent(4, 2),)


def test_a_block_is_worth_nothing_to_its_next_owner() -> None:
    manager = BlockManager(2)
    manager.value(0, 1.0)
    everything = manager.allocate(2)
    assert everything is not None
    manager.free(everything)
    assert manager.allocate(1) == (Extent(0, 1),)


def test_a_block_is_free_once_nobody_holds_it() -> None:
    manager = BlockManager(2)
    held = manager.allocate(2)
    assert held is not None
    manager.hold([Extent(0, 1)])
    manager.free(held)
    assert manager.used == 1
    assert manager.allocate(2) is None
    manager.free([Extent(0, 1)])
    assert manager.used == 0


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.data())
def test_window_max_is_the_largest_of_each_window(values: list[int], data: st.DataObject) -> None:
    width = data.draw(st.integers(1, len(values)))
    expected = [max(values[at : at + width]) for at in range(len(values) - width + 1)]
    assert _window_max(np.array(values, dtype=float), width).tolist() == expected
