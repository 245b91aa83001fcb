"""Attention on CUDA devices: one call per layer for all requests, over pages of the arena.

Written against the documentation of `torch.nn.attention.varlen` (torch 2.13) and not yet run on hardware. `choice`
tries it at every start and takes torch's plain operator where it does not compute what it should. That will be so in
float32, and with FlashAttention 2 unless the block size is a multiple of 256; FlashAttention 3 takes any.
"""

from __future__ import annotations

import torch
from torch.nn.attention.varlen import varlen_attn

from inference.engine.attention.seam import AttentionStep, Segment
from inference.engine.kv_cache import KVCache


class VarlenAttention:
    """An `AttentionBackend`. page_tokens: tokens of a page; a KV block, or a divisor of one."""

    token_major = True

    def __init__(self, page_tokens: int) -> None:
        self._page_tokens = page_tokens

    @property
    def name(self) -> str:
        return f"variable lengths over pages of {self._page_tokens} tokens"

    def begin(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> AttentionStep:
        return _VarlenStep(cache, segments, slots, self._page_tokens)


class _VarlenStep:
    def __init__(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor, page_tokens: int) -> None:
        self._cache = cache
        self._slots = slots
        self._page_tokens = page_tokens
        self._most_rows = max(segment.rows for segment in segments)
        self._most_keys = max(segment.end for segment in segments)
        ends = [0]
        for segment in segments:
            ends.append(ends[-1] + segment.rows)
        self._row_ends = self._integers(ends)
        self._lengths = self._integers([segment.end for segment in segments])
        self._pages = self._integers(_page_table(segments, page_tokens))

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
        keys, values = self._cache.pages(layer, self._page_tokens)
        attended = varlen_attn(
            query[0].transpose(0, 1).contiguous(),
            keys,
            values,
            self._row_ends,
            None,
            self._most_rows,
            self._most_keys,
            scale=scale,
            window_size=(-1 if window is None else window - 1, 0),
            enable_gqa=query.shape[1] != key.shape[1],
            seqused_k=self._lengths,
            block_table=self._pages,
        )
        if not isinstance(attended, torch.Tensor):
            raise TypeError("varlen_attn gave more than its output")
        return attended.unsqueeze(0)

    def _integers(self, numbers: list[int] | list[list[int]]) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=self._slots.device)


def _page_table(segments: list[Segment], page_tokens: int) -> list[list[int]]:
    """For each request the pages that hold its tokens, in order; rows are of one length, the rest is never read."""
    table = [
        [slot // page_tokens for slot in segment.slot_map.slots(0, segment.end)[::page_tokens]] for segment in segments
    ]
    longest = max(len(pages) for pages in table)
    return [pages + [0] * (longest - len(pages)) for pages in table]
