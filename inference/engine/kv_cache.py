"""The KV arena: keys and values of all requests in one piece of memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from inference.engine.interface import Digest, KVMemory
from inference.engine.reservations import CopySpan, SlotMap
from inference.engine.shared_file import SharedFile

_PIECE_BYTES = 256 * 1024

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
        shared = device.type == "cpu" and not token_major
        try:
            if shared:
                self._file = SharedFile(math.prod(shape) * dtype.itemsize)
                arena = torch.frombuffer(self._file.bytes, dtype=dtype).view(shape)
            else:
                arena = torch.empty(shape, dtype=dtype, device=device).zero_()  # touched: what fits now, fits later
        except (RuntimeError, MemoryError, OSError) as error:
            size = slots * geometry.bytes_per_token(dtype) / 2**30
            raise MemoryError(
                f"no memory on {device} for a KV arena of {slots} tokens ({size:.1f} GiB); lower kv_tokens"
            ) from error
        #: The same memory as bytes, [layers, K|V, kv_heads, slots, bytes], where other processes may read it, too.
        self._raw = arena.view(torch.uint8).numpy() if shared else None
        self.memory = KVMemory(self._file.fd, self._raw.shape) if self._raw is not None else None
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

    def export_bytes(self, slot_map: SlotMap, layers: range, start: int, end: int) -> list[memoryview]:
        """See `Engine.export_kv`."""
        _check_layers(layers, self.geometry)
        spans = slot_map.spans(start, end)
        if self._raw is None:
            block = torch.cat([self._span(layers, *span) for span in spans], dim=3).cpu()
            return [block.view(torch.uint8).numpy().data.cast("B")]
        heads = self._raw[layers.start : layers.stop].reshape(-1, *self._raw.shape[3:])
        return [head[first : first + length].data.cast("B") for head in heads for first, length in spans]

    def import_bytes(
        self,
        slot_map: SlotMap,
        layers: range,
        start: int,
        end: int,
        data: memoryview | np.ndarray,
        digest: Digest | None = None,
    ) -> None:
        """See `Engine.import_kv`."""
        _check_layers(layers, self.geometry)
        size = self.geometry.head_size * self._arena.dtype.itemsize
        shape = (len(layers), 2, self.geometry.kv_heads, end - start, size)
        block = np.asarray(data, np.uint8)
        if block.size != math.prod(shape):
            raise ValueError(
                f"tokens [{start}, {end}) of {len(layers)} layers are {math.prod(shape)} bytes, not {block.size}"
            )
        block = block.reshape(shape)
        spans = slot_map.spans(start, end)
        if self._raw is not None:
            heads = self._raw[layers.start : layers.stop].reshape(-1, *self._raw.shape[3:])
            _copy_rows(heads, block.reshape(-1, *shape[3:]), spans, digest)
            return
        passed = 0
        for first, length in spans:
            part = block[:, :, :, passed : passed + length]
            self._span(layers, first, length).copy_(torch.from_numpy(part.copy()).view(self._arena.dtype))
            passed += length
        if digest is not None:
            for piece in self.export_bytes(slot_map, layers, start, end):
                digest.update(piece)

    def _span(self, layers: range, first: int, length: int) -> torch.Tensor:
        return self._arena[layers.start : layers.stop, :, :, first : first + length]


def _copy_rows(heads: np.ndarray, rows: np.ndarray, spans: list[tuple[int, int]], digest: Digest | None) -> None:
    """Write `rows` [heads, tokens, bytes] to `spans` of `heads` [heads, slots, bytes].

    Piece by piece, so that what the digest reads is still in the processor's nearest cache.
    """
    step = max(1, _PIECE_BYTES // rows.shape[2])
    for head, row in zip(heads, rows, strict=True):
        passed = 0
        for first, length in spans:
            for at in range(0, length, step):
                count = min(step, length - at)
                target = head[first + at : first + at + count]
                np.copyto(target, row[passed + at : passed + at + count])
                if digest is not None:
                    digest.update(target.data)
            passed += length


def _check_layers(layers: range, geometry: KVGeometry) -> None:
    if layers.step != 1 or not 0 <= layers.start < layers.stop <= geometry.layers:
        raise ValueError(f"{layers} is no run of the {geometry.layers} layers")
