"""Attention by torch's own operator, request by request, on views of the arena. Runs on every device and dtype."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

from inference.engine.attention.masks import Masks
from inference.engine.attention.seam import AttentionStep, Segment, window_start
from inference.engine.kv_cache import KVCache

#: Queries of a prompt are taken in groups, so that none computes scores for keys that lie far after it.
CPU_GROUP_ROWS = 128
_GPU_GROUP_ROWS = 1024


class ExtentAttention:
    """An `AttentionBackend`."""

    name = "torch's operator on views of the arena"
    token_major = False

    def begin(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> AttentionStep:
        return ExtentStep(cache, segments, slots)


class ExtentStep:
    """An `AttentionStep` over `segments`, whose K and V go to `slots` [tokens] of `cache`."""

    def __init__(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> None:
        self._cache = cache
        self._segments = segments
        self._slots = slots
        self._group_rows = CPU_GROUP_ROWS if slots.device.type == "cpu" else _GPU_GROUP_ROWS
        self._masks = Masks(slots.device)

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        self._cache.write(layer, self._slots, key, value)
        _, heads, tokens, size = query.shape
        output = query.new_empty(tokens, heads, size)
        for segment in self._segments:
            if segment.rows == 1:
                self.attend_one(layer, segment, query, scale, window, output)
            else:
                self.attend_many(layer, segment, query, scale, window, output)
        return output.unsqueeze(0)

    def attend_one(
        self,
        layer: int,
        segment: Segment,
        query: torch.Tensor,
        scale: float | None,
        window: int | None,
        output: torch.Tensor,
    ) -> None:
        """One token sees all keys in its window: query heads of one KV head become rows, so no key is repeated."""
        spans = segment.slot_map.spans(window_start(segment.past, window), segment.end)
        keys, values = self._cache.read(layer, spans)
        rows = query[:, :, segment.first_row].view(1, keys.shape[1], -1, keys.shape[3])
        attended = scaled_dot_product_attention(rows, keys, values, scale=scale)
        output[segment.first_row] = attended.view(output.shape[1:])

    def attend_many(
        self,
        layer: int,
        segment: Segment,
        query: torch.Tensor,
        scale: float | None,
        window: int | None,
        output: torch.Tensor,
    ) -> None:
        """A chunk of a prompt, group by group; token i sees keys up to i within its window."""
        for offset in range(0, segment.rows, self._group_rows):
            rows = min(self._group_rows, segment.rows - offset)
            position, first = segment.past + offset, segment.first_row + offset
            begin, end = window_start(position, window), position + rows
            keys, values = self._cache.read(layer, segment.slot_map.spans(begin, end))
            attended = scaled_dot_product_attention(
                query[:, :, first : first + rows],
                keys,
                values,
                attn_mask=self._masks.seen(rows, end - begin, position - begin, window),
                scale=scale,
                enable_gqa=True,
            )
            output[first : first + rows] = attended[0].transpose(0, 1)
