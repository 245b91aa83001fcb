"""Attention over the KV arena, for any Hugging Face decoder model, without model code.

transformers lets a function be registered under a name that models then call for every layer. Ours gets the tokens of
all requests of a step in one row `[1, heads, tokens, head_size]`, writes their K and V into the arena and attends
request by request. The name is not registered for masks, so models build none.

What the step consists of reaches the function through a context variable: not every model passes unknown arguments
on to its attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from inference.engine.kv_cache import KVCache
from inference.engine.reservations import SlotMap

ATTENTION = "tandem"

#: Queries of a prompt are taken in groups, so that none computes scores for keys that lie far after it.
_CPU_QUERY_ROWS = 128
_GPU_QUERY_ROWS = 1024

#: Arguments by which models ask for score functions that plain attention does not have. Ignoring one is a wrong answer.
_UNSUPPORTED = ("softcap", "s_aux", "sinks", "position_bias")


class AttentionStep(Protocol):
    """What happens in the attention of each layer while a model runs."""

    def attend(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float | None,
        window: int | None,
    ) -> torch.Tensor:
        """Output [1, tokens, heads, head_size] for `query` [1, heads, tokens, head_size] and `key`, `value`
        [1, kv_heads, tokens, head_size]. window: each token sees itself and the window - 1 tokens before it."""


_current: ContextVar[AttentionStep] = ContextVar("attention_step")


@contextmanager
def attention_step(step: AttentionStep) -> Iterator[None]:
    """Models called in this thread within the context attend by `step`."""
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **arguments: Any,
) -> tuple[torch.Tensor, None]:
    if attention_mask is not None or any(arguments.get(name) is not None for name in _UNSUPPORTED):
        raise ValueError("the model asks for an attention that this engine does not compute")
    return _current.get().attend(module.layer_idx, query, key, value, scaling, sliding_window), None


AttentionInterface.register(ATTENTION, _attention)


@dataclass(frozen=True, slots=True)
class Segment:
    """The tokens of one request in a step: rows [first_row, first_row + rows), the request's tokens from `past` on."""

    slot_map: SlotMap
    first_row: int
    rows: int
    past: int


class CachedAttention:
    """An `AttentionStep` over `segments`, whose K and V go to `slots` [tokens] of `cache`."""

    def __init__(self, cache: KVCache, segments: list[Segment], slots: torch.Tensor) -> None:
        self._cache = cache
        self._segments = segments
        self._slots = slots
        self._device = slots.device
        self._group_rows = _CPU_QUERY_ROWS if slots.device.type == "cpu" else _GPU_QUERY_ROWS
        self._masks: dict[tuple[int, int, int, int | None], torch.Tensor] = {}

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
        parts: list[torch.Tensor] = []
        for segment in self._segments:
            if segment.rows == 1:
                parts.append(self._one(layer, segment, query, scale, window))
            else:
                parts += self._many(layer, segment, query, scale, window)
        return torch.cat(parts).view(1, tokens, heads, size)

    def _one(
        self, layer: int, segment: Segment, query: torch.Tensor, scale: float | None, window: int | None
    ) -> torch.Tensor:
        """One token sees all keys in its window: query heads of one KV head become rows, so no key is repeated."""
        end = segment.past + 1
        keys, values = self._cache.read(layer, segment.slot_map.spans(_window_start(segment.past, window), end))
        rows = query[:, :, segment.first_row].view(1, keys.shape[1], -1, keys.shape[3])
        return scaled_dot_product_attention(rows, keys, values, scale=scale).reshape(1, -1)

    def _many(
        self, layer: int, segment: Segment, query: torch.Tensor, scale: float | None, window: int | None
    ) -> Iterator[torch.Tensor]:
        """A chunk of a prompt, group by group; token i sees keys up to i within its window."""
        for offset in range(0, segment.rows, self._group_rows):
            rows = min(self._group_rows, segment.rows - offset)
            position = segment.past + offset
            begin, end = _window_start(position, window), position + rows
            keys, values = self._cache.read(layer, segment.slot_map.spans(begin, end))
            first = segment.first_row + offset
            output = scaled_dot_product_attention(
                query[:, :, first : first + rows],
                keys,
                values,
                attn_mask=self._mask(rows, end - begin, position - begin, window),
                scale=scale,
                enable_gqa=True,
            )
            yield output[0].transpose(0, 1).reshape(rows, -1)

    def _mask(self, rows: int, keys: int, lead: int, window: int | None) -> torch.Tensor:
        """Which of `keys` each of `rows` may see [rows, keys], the first row standing at key `lead`. Layers share."""
        reach = None if window is None or keys <= window else window
        name = (rows, keys, lead, reach)
        if name not in self._masks:
            row = torch.arange(lead, lead + rows, device=self._device).unsqueeze(1)
            distance = row - torch.arange(keys, device=self._device)
            seen = distance >= 0
            self._masks[name] = seen if reach is None else seen & (distance < reach)
        return self._masks[name]


def _window_start(position: int, window: int | None) -> int:
    """The first token that the token at `position` sees."""
    return 0 if window is None else max(0, position + 1 - window)
