from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.block_manager import BlockManager, Extent


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
