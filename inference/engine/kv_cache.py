"""The KV arena: keys and values of all requests in one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from inference.engine.reservations import CopySpan, SlotMap

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class KVGeometry:
    """Shape of what one token leaves behind in each layer, after rotary embedding. windows: see `EngineInfo`."""

    layers: int
    kv_heads: int
    head_size: int
    windows: tuple[int | None, ...] = ()

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        return self.layers * 2 * self.kv_heads * self.head_size * dtype.itemsize


class KVCache:
    """Arena `[layers, 2 (K, V), kv_heads, slots, head_size]`, one slot per token.

    With slots next to each other the KV of a request is a strided view that attention reads in place, and the wire
    layout [layer, K|V, head, token, dim] is a plain slice of the arena.

    token_major: in memory, the heads of one slot lie next to each other, as paged attention wants it; the arena looks
    the same from outside.
    """

    def __init__(
        self,
        geometry: KVGeometry,
        slots: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        token_major: bool = False,
    ) -> None:
        rows = (slots, geometry.kv_heads) if token_major else (geometry.kv_heads, slots)
        shape = (geometry.layers, 2, *rows, geometry.head_size)
        try:
            arena = torch.empty(shape, dtype=dtype, device=device).zero_()  # touched: what fits now, fits later
        except (RuntimeError, MemoryError) as error:
            size = slots * geometry.bytes_per_token(dtype) / 2**30
            raise MemoryError(
                f"no memory on {device} for a KV arena of {slots} tokens ({size:.1f} GiB); lower kv_tokens"
            ) from error
        self.geometry = geometry
        self._arena = arena.transpose(2, 3) if token_major else arena
        # Per layer [1, kv_heads, slots, head_size]; sliced once, as attention asks for each layer of each request.
        self._keys = [layer[0:1] for layer in self._arena]
        self._values = [layer[1:2] for layer in self._arena]

    def write(self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put `keys` and `values` [1, kv_heads, tokens, head_size] at `slots` [tokens]."""
        self._keys[layer].index_copy_(2, slots, keys)
        self._values[layer].index_copy_(2, slots, values)

    def arena(self, layer: int) -> Pair:
        """Keys and values of all slots [1, kv_heads, slots, head_size], in place."""
        return self._keys[layer], self._values[layer]

    def pages(self, layer: int, page_tokens: int) -> Pair:
        """Keys and values as pages [pages, page_tokens, kv_heads, head_size], in place. Only of a token-major arena."""
        keys, values = (
            part[0].transpose(0, 1).unflatten(0, (-1, page_tokens)) for part in (self._keys[layer], self._values[layer])
        )
        return keys, values

    def read(self, layer: int, spans: list[tuple[int, int]]) -> Pair:
        """Keys and values [1, kv_heads, tokens, head_size] of `spans`: views where there is one span, else copies."""
        keys, values = self._keys[layer], self._values[layer]
        if len(spans) == 1:
            first, length = spans[0]
            return keys.narrow(2, first, length), values.narrow(2, first, length)
        return (
            torch.cat([keys.narrow(2, first, length) for first, length in spans], dim=2),
            torch.cat([values.narrow(2, first, length) for first, length in spans], dim=2),
        )

    def copy(self, spans: Iterable[CopySpan]) -> None:
        """Copy K and V of all layers from slots to slots, one span after the other."""
        layers = range(self.geometry.layers)
        for span in spans:
            self._span(layers, span.target, span.length).copy_(self._span(layers, span.source, span.length))

    def export_bytes(self, slot_map: SlotMap, layers: range, start: int, end: int) -> memoryview:
        """See `Engine.export_kv`."""
        _check_layers(layers, self.geometry)
        views = [self._span(layers, *span) for span in slot_map.spans(start, end)]
        block = (torch.cat(views, dim=3) if len(views) > 1 else views[0].contiguous()).cpu()
        return block.view(torch.uint8).numpy().data.cast("B")

    def import_bytes(self, slot_map: SlotMap, layers: range, start: int, end: int, data: memoryview) -> None:
        """See `Engine.import_kv`."""
        _check_layers(layers, self.geometry)
        shape = (len(layers), 2, self.geometry.kv_heads, end - start, self.geometry.head_size)
        wanted = math.prod(shape) * self._arena.dtype.itemsize
        if data.nbytes != wanted:
            raise ValueError(f"tokens [{start}, {end}) of {len(layers)} layers are {wanted} bytes, not {data.nbytes}")
        block = _as_tensor(data, self._arena.dtype).view(shape)
        passed = 0
        for first, length in slot_map.spans(start, end):
            self._span(layers, first, length).copy_(block[:, :, :, passed : passed + length])
            passed += length

    def _span(self, layers: range, first: int, length: int) -> torch.Tensor:
        return self._arena[layers.start : layers.stop, :, :, first : first + length]


def _as_tensor(data: memoryview, dtype: torch.dtype) -> torch.Tensor:
    """`data` as a flat tensor without a copy; torch has no read-only tensors and would warn, hence the fresh one."""
    flat = data.cast("B")
    if flat.readonly:
        return torch.from_numpy(np.frombuffer(flat, np.uint8).copy()).view(dtype)
    return torch.frombuffer(flat, dtype=dtype)


def _check_layers(layers: range, geometry: KVGeometry) -> None:
    if layers.step != 1 or not 0 <= layers.start < layers.stop <= geometry.layers:
        raise ValueError(f"{layers} is no run of the {geometry.layers} layers")
