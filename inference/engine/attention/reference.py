"""Attention as the textbook has it, in float64, one token and one head at a time: what every other way must equal."""

from __future__ import annotations

import torch

from inference.engine.attention.seam import AttentionStep, Segment, window_start
from inference.engine.kv_cache import KVCache


class ReferenceAttention:
    """An `AttentionBackend` that is right and slow."""

    name = "the reference"
    token_major = False

    def begin(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> AttentionStep:
        return _ReferenceStep(cache, segments, slots)


class _ReferenceStep:
    def __init__(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> None:
        self._cache = cache
        self._segments = segments
        self._slots = slots

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
        output = query.new_empty(1, tokens, heads, size)
        factor = size**-0.5 if scale is None else scale
        for segment in self._segments:
            for row in range(segment.rows):
                position = segment.past + row
                spans = segment.slot_map.spans(window_start(position, window), position + 1)
                keys, values = (part[0].double() for part in self._cache.read(layer, spans))
                for head in range(heads):
                    kv_head = head * keys.shape[0] // heads
                    scores = keys[kv_head] @ query[0, head, segment.first_row + row].double() * factor
                    output[0, segment.first_row + row, head] = torch.softmax(scores, 0) @ values[kv_head]
        return output
