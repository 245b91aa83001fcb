"""Paged attention of variable lengths against the reference, on made-up numbers; it is chosen where it works."""

from __future__ import annotations

import pytest
import torch

from inference.engine.attention.choice import choose_attention
from inference.engine.attention.cuda import VarlenAttention
from inference.engine.attention.reference import ReferenceAttention
from inference.engine.attention.seam import AttentionBackend, Segment
from inference.engine.block_manager import Extent
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.reservations import SlotMap

HEADS, KV_HEADS, SIZE, SCALE = 6, 2, 64, 0.11

#: FlashAttention 2 takes pages of so many tokens; FlashAttention 3 takes any.
PAGE = 256

#: Blocks of each request, not neighbours and not in order; tokens in the cache before the step, tokens in the step.
PLACES = [(7,), (3, 1), (5, 2, 4), (6,)]
STEPS = [(5, 11), (256, 40), (600, 1), (0, 1)]


def attend(way: AttentionBackend, window: int | None, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda:0")
    slots_in_all = 8 * PAGE
    cache = KVCache(KVGeometry(1, KV_HEADS, SIZE), slots_in_all, dtype, device, token_major=way.token_major)
    held = torch.randn(2, 1, KV_HEADS, slots_in_all, SIZE, generator=generator).to(device, dtype)
    cache.write(0, torch.arange(slots_in_all, device=device), *held)
    segments, slots, row = [], [], 0
    for blocks, (past, rows) in zip(PLACES, STEPS, strict=True):
        slot_map = SlotMap(tuple(Extent(block, 1) for block in blocks), PAGE)
        segments.append(Segment(slot_map, row, rows, past))
        slots += slot_map.slots(past, past + rows)
        row += rows
    query = torch.randn(1, row, HEADS, SIZE, generator=generator).to(device, dtype).transpose(1, 2)
    new = torch.randn(2, 1, KV_HEADS, row, SIZE, generator=generator).to(device, dtype)
    return way.begin(cache, segments, torch.tensor(slots, device=device)).attend(0, query, *new, SCALE, window)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("window", [None, 1, 17, 300])
def test_a_ragged_step_over_scattered_pages_attends_like_the_reference(dtype: torch.dtype, window: int | None) -> None:
    got, expected = attend(VarlenAttention(PAGE), window, dtype), attend(ReferenceAttention(), window, dtype)
    torch.testing.assert_close(got, expected, rtol=0.03, atol=0.03)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_it_is_what_half_precision_gets_with_pages_that_every_kernel_takes(dtype: torch.dtype) -> None:
    geometry = KVGeometry(4, KV_HEADS, SIZE, windows=(None, 24, None, 24))
    chosen = choose_attention(geometry, HEADS, dtype, torch.device("cuda:0"), PAGE)
    assert isinstance(chosen, VarlenAttention)


@pytest.mark.parametrize("block_size", [1, 16, PAGE])
def test_full_precision_gets_something_that_computes_the_same(block_size: int) -> None:
    geometry = KVGeometry(4, KV_HEADS, SIZE)
    chosen = choose_attention(geometry, HEADS, torch.float32, torch.device("cuda:0"), block_size)
    got, expected = (attend(way, None, torch.float32) for way in (chosen, ReferenceAttention()))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
