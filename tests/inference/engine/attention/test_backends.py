"""Every way of computing attention computes what the reference does, and the reference what a textbook says."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.engine.attention import cpu, extents, seam
from inference.engine.attention.cpu import CpuAttention
from inference.engine.attention.decode_kernel import DecodeKernel
from inference.engine.attention.extents import ExtentAttention
from inference.engine.attention.reference import ReferenceAttention
from inference.engine.attention.seam import AttentionBackend, Segment
from inference.engine.block_manager import Extent
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.reservations import SlotMap

HEADS, KV_HEADS, SIZE, SCALE = 6, 2, 8, 0.3
MAPS = [
    SlotMap((Extent(1, 6),), 4),
    SlotMap((Extent(12, 1), Extent(7, 3), Extent(20, 9)), 4),
    SlotMap((Extent(40, 2),), 4),
    SlotMap((Extent(45, 2), Extent(50, 9)), 4),
    SlotMap((Extent(60, 3),), 4),
]
#: Tokens in the cache before the step, tokens in the step: a chunk, the next answer token, a first token, a long chunk.
STEPS = [(5, 11), (30, 1), (0, 1), (3, 40), (9, 1)]

BACKENDS = ["extents", "kernel", "kernel, two threads", "products", "token-major"]


class TokenMajorExtents(ExtentAttention):
    token_major = True


def backend(name: str, dtype: torch.dtype = torch.float32) -> AttentionBackend:
    match name:
        case "extents":
            return ExtentAttention()
        case "token-major":
            return TokenMajorExtents()
        case "products":
            return CpuAttention(None, True)
    return CpuAttention(DecodeKernel(SIZE, HEADS // KV_HEADS, dtype), False)


def attend(way: AttentionBackend, window: int | None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A ragged step over random KV, with NaN in every slot that no token may see."""
    generator = torch.Generator().manual_seed(0)
    geometry = KVGeometry(2, KV_HEADS, SIZE)
    cache = KVCache(geometry, 280, dtype, torch.device("cpu"), token_major=way.token_major)
    empty = torch.full((1, KV_HEADS, 280, SIZE), torch.nan, dtype=dtype)
    cache.write(1, torch.arange(280), empty, empty)
    segments, slots, row = [], [], 0
    for slot_map, (past, rows) in zip(MAPS, STEPS, strict=True):
        keys, values = torch.randn(2, 1, KV_HEADS, past, SIZE, generator=generator).to(dtype)
        if past:
            cache.write(1, torch.tensor(slot_map.slots(0, past)), keys, values)
        segments.append(Segment(slot_map, row, rows, past))
        slots += slot_map.slots(past, past + rows)
        row += rows
    query = torch.randn(1, row, HEADS, SIZE, generator=generator).to(dtype).transpose(1, 2)
    new = torch.randn(2, 1, KV_HEADS, row, SIZE, generator=generator).to(dtype)
    step = way.begin(cache, segments, torch.tensor(slots))
    out = step.attend(1, query, new[0], new[1], SCALE, window)
    assert out.shape == (1, row, HEADS, SIZE)
    return out


@pytest.mark.parametrize("window", [None, 1, 4, 17, 100])
@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("group_rows", [3, 128])
def test_a_ragged_step_attends_like_the_reference(monkeypatch, name: str, window: int | None, group_rows: int) -> None:
    monkeypatch.setattr(extents, "CPU_GROUP_ROWS", group_rows)
    monkeypatch.setattr(cpu, "_TOGETHER_ROWS", group_rows * HEADS // KV_HEADS)
    monkeypatch.setattr(cpu, "_LEAST_ROWS", min(group_rows, 16))
    if "two threads" in name:
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    torch.testing.assert_close(attend(backend(name), window), attend(ReferenceAttention(), window))


@pytest.mark.parametrize("window", [None, 17])
@pytest.mark.parametrize("name", BACKENDS)
def test_half_precision_differs_from_the_reference_by_rounding_only(name: str, window: int | None) -> None:
    half = torch.bfloat16
    got, expected = attend(backend(name, half), window, half), attend(ReferenceAttention(), window, half)
    torch.testing.assert_close(got, expected, rtol=0.03, atol=0.03)


def test_the_reference_is_what_torch_computes_for_a_whole_prompt() -> None:
    query, key, value = torch.randn(3, 1, KV_HEADS, 7, SIZE, generator=torch.Generator().manual_seed(0))
    cache = KVCache(KVGeometry(1, KV_HEADS, SIZE), 8, torch.float32, torch.device("cpu"))
    segment = Segment(SlotMap((Extent(0, 2),), 4), 0, 7, 0)
    step = ReferenceAttention().begin(cache, [segment], torch.arange(7))
    expected = scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(step.attend(0, query, key, value, None, None), expected.transpose(1, 2))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_numbers_that_are_no_numbers_are_not_hidden_by_the_kernel(bad: float) -> None:
    """A model that computes NaN is found out when a token is chosen."""
    cache = KVCache(KVGeometry(1, KV_HEADS, SIZE), 28, torch.float32, torch.device("cpu"))
    step = backend("kernel").begin(cache, [Segment(MAPS[0], 0, 1, 0)], torch.tensor([4]))
    ones = torch.ones(1, KV_HEADS, 1, SIZE)
    assert step.attend(0, torch.full((1, HEADS, 1, SIZE), bad), ones, ones, None, None).isnan().all()


@pytest.mark.parametrize("argument", ["softcap", "s_aux", "position_bias"])
def test_a_score_function_that_is_not_computed_is_an_error_not_ignored(argument: str) -> None:
    tensor = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ValueError, match="does not compute"):
        seam._attention(None, tensor, tensor, tensor, None, **{argument: 1.0})
