from __future__ import annotations

import pytest
import torch

from inference.engine import attention
from inference.engine.attention import CachedAttention, Segment
from inference.engine.block_manager import Extent
from inference.engine.kv_cache import KVCache, KVGeometry
from inference.engine.reservations import SlotMap

HEADS, KV_HEADS, SIZE, SCALE = 6, 2, 8, 0.3
MAPS = [
    SlotMap((Extent(1, 6),), 4),
    SlotMap((Extent(12, 1), Extent(7, 3), Extent(20, 9)), 4),
    SlotMap((Extent(40, 2),), 4),
]
#: Tokens in the cache before the step, tokens in the step: a chunk, the next answer token, a first token.
STEPS = [(5, 11), (30, 1), (0, 1)]


def plain_attention(query, keys, values, past: int, window: int | None) -> torch.Tensor:
    """Textbook attention [rows, heads, size], one query head and one row at a time."""
    rows = query.shape[1]
    out = torch.empty(rows, HEADS, SIZE)
    for head in range(HEADS):
        kv_head = head * KV_HEADS // HEADS
        for row in range(rows):
            position = past + row
            first = 0 if window is None else max(0, position - window + 1)
            seen = slice(first, position + 1)
            weights = torch.softmax(keys[kv_head, seen] @ query[head, row] * SCALE, dim=0)
            out[row, head] = weights @ values[kv_head, seen]
    return out


@pytest.mark.parametrize("window", [None, 1, 4, 100])
@pytest.mark.parametrize("group_rows", [3, 128])
def test_a_ragged_step_attends_like_the_textbook(monkeypatch, window: int | None, group_rows: int) -> None:
    monkeypatch.setattr(attention, "_CPU_QUERY_ROWS", group_rows)
    generator = torch.Generator().manual_seed(0)
    cache = KVCache(KVGeometry(2, KV_HEADS, SIZE), 240, torch.float32, torch.device("cpu"))
    history = [torch.randn(2, KV_HEADS, past + rows, SIZE, generator=generator) for past, rows in STEPS]
    for slot_map, kv, (past, _) in zip(MAPS, history, STEPS, strict=True):
        if past:
            cache.write(1, torch.tensor(slot_map.slots(0, past)), kv[0:1, :, :past], kv[1:2, :, :past])
    total = sum(rows for _, rows in STEPS)
    query = torch.randn(1, total, HEADS, SIZE, generator=generator).transpose(1, 2)
    new = torch.cat([kv[:, :, past:] for kv, (past, _) in zip(history, STEPS, strict=True)], dim=2)
    segments, slots, row = [], [], 0
    for slot_map, (past, rows) in zip(MAPS, STEPS, strict=True):
        segments.append(Segment(slot_map, row, rows, past))
        slots += slot_map.slots(past, past + rows)
        row += rows
    step = CachedAttention(cache, segments, torch.tensor(slots))
    out = step.attend(1, query, new[0:1], new[1:2], SCALE, window)
    expected = torch.cat(
        [
            plain_attention(query[0, :, s.first_row : s.first_row + s.rows], kv[0], kv[1], s.past, window)
            for s, kv in zip(segments, history, strict=True)
        ]
    )
    assert out.shape == (1, total, HEADS, SIZE)
    torch.testing.assert_close(out[0], expected)


@pytest.mark.parametrize("argument", ["softcap", "s_aux", "position_bias"])
def test_a_score_function_that_is_not_computed_is_an_error_not_ignored(argument: str) -> None:
    tensor = torch.zeros(1, 1, 1, 1)
    with pytest.raises(ValueError, match="does not compute"):
        attention._attention(None, tensor, tensor, tensor, None, **{argument: 1.0})
