from __future__ import annotations

import pytest
import torch

from inference.engine.block_manager import Extent
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.reservations import SlotMap

GEOMETRY = KVGeometry(layers=3, kv_heads=2, head_size=4)
WHOLE = SlotMap((Extent(2, 4),), 4)
BROKEN = SlotMap((Extent(5, 1), Extent(0, 2), Extent(8, 1)), 4)
TOKENS = 13


def cache_with(slot_map: SlotMap, dtype: torch.dtype = torch.float32, seed: int = 0) -> KVCache:
    """Random K and V of `TOKENS` tokens, written layer by layer as a model does."""
    cache = KVCache(GEOMETRY, 40, dtype, torch.device("cpu"))
    generator = torch.Generator().manual_seed(seed)
    slots = torch.tensor(slot_map.slots(0, TOKENS))
    for layer in range(GEOMETRY.layers):
        keys, values = torch.randn(2, 1, 2, TOKENS, 4, generator=generator).to(dtype)
        cache.write(layer, slots, keys, values)
    return cache


def test_a_handle_in_several_extents_reads_like_one_in_one_extent() -> None:
    whole, broken = cache_with(WHOLE), cache_with(BROKEN)
    for layer in range(GEOMETRY.layers):
        for start, end in [(0, TOKENS), (3, 5), (2, 13), (7, 8)]:
            expected = whole.read(layer, WHOLE.spans(start, end))
            got = broken.read(layer, BROKEN.spans(start, end))
            assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_one_extent_is_read_without_a_copy() -> None:
    cache = cache_with(WHOLE)
    keys, values = cache.read(1, WHOLE.spans(0, TOKENS))
    keys.fill_(7)
    assert torch.equal(cache.read(1, WHOLE.spans(0, TOKENS))[0], torch.full_like(keys, 7))
    assert not torch.equal(values, torch.full_like(values, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_exported_bytes_are_layer_kv_head_token_dim(dtype: torch.dtype) -> None:
    cache = cache_with(BROKEN, dtype)
    data = b"".join(cache.export_bytes(BROKEN, range(1, 3), 2, 9))
    assert len(data) == 2 * 2 * 2 * 7 * 4 * dtype.itemsize
    block = torch.frombuffer(bytearray(data), dtype=dtype).view(2, 2, 2, 7, 4)
    for row, layer in enumerate((1, 2)):
        keys, values = cache.read(layer, BROKEN.spans(2, 9))
        assert torch.equal(block[row, 0], keys[0])
        assert torch.equal(block[row, 1], values[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("read_only", [False, True])
def test_what_was_exported_is_imported_into_other_blocks(dtype: torch.dtype, read_only: bool) -> None:
    source, target = cache_with(WHOLE, dtype), cache_with(BROKEN, dtype, seed=1)
    for layers in (range(0, 1), range(1, 3)):
        for start, end in ((0, 6), (6, TOKENS)):
            data = b"".join(source.export_bytes(WHOLE, layers, start, end))
            target.import_bytes(BROKEN, layers, start, end, memoryview(data if read_only else bytearray(data)))
    everything = (range(3), 0, TOKENS)
    assert b"".join(target.export_bytes(BROKEN, *everything)) == b"".join(source.export_bytes(WHOLE, *everything))


def test_importing_leaves_other_tokens_alone() -> None:
    cache = cache_with(WHOLE)
    before = b"".join(cache.export_bytes(WHOLE, range(3), 0, TOKENS))
    cache.import_bytes(BROKEN, range(3), 12, 13, memoryview(bytes(3 * 2 * 2 * 4 * 4)))
    assert b"".join(cache.export_bytes(WHOLE, range(3), 0, TOKENS)) == before


@pytest.mark.parametrize("size", [0, 4, 3 * 2 * 2 * 5 * 4 * 4 - 1, 3 * 2 * 2 * 6 * 4 * 4])
def test_bytes_of_another_size_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="bytes, not"):
        cache_with(WHOLE).import_bytes(WHOLE, range(3), 0, 5, memoryview(bytes(size)))


@pytest.mark.parametrize("layers", [range(0, 4), range(2, 2), range(-1, 1), range(0, 3, 2)])
def test_layers_that_do_not_exist_are_refused(layers: range) -> None:
    with pytest.raises(ValueError, match="layers"):
        cache_with(WHOLE).export_bytes(WHOLE, layers, 0, 5)


def test_tokens_beyond_the_reservation_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        cache_with(WHOLE).export_bytes(WHOLE, range(3), 0, 17)


def test_an_arena_that_does_not_fit_says_what_to_lower() -> None:
    with pytest.raises(MemoryError, match="lower kv_tokens"):
        KVCache(GEOMETRY, 2**50, torch.float32, torch.device("cpu"))
