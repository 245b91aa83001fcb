"""The KV cache of a stub engine: real memory, in which every prompt token leaves bytes of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import xxhash

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.interface import KVHandle, KVMemory
from inference.engine.shared_file import SharedFile

LAYERS, KV_HEADS, HEAD_BYTES = 2, 2, 8
KV_BYTES_PER_TOKEN = LAYERS * 2 * KV_HEADS * HEAD_BYTES


class StubKV:
    """`total` blocks of `block_size` tokens: uint8 `[LAYERS, 2 (K, V), KV_HEADS, slots, HEAD_BYTES]`. Thread-safe.

    Blocks are given out so that those of one handle are seldom neighbours.
    """

    def __init__(self, total: int, block_size: int) -> None:
        self.total = total
        self._block_size = block_size
        shape = (LAYERS, 2, KV_HEADS, total * block_size, HEAD_BYTES)
        self._file = SharedFile(KV_BYTES_PER_TOKEN * total * block_size)
        self.memory = KVMemory(self._file.fd, shape)
        self._arena = np.frombuffer(self._file.bytes, np.uint8).reshape(shape)
        self._free = list(range(total))
        self._slots: dict[int, np.ndarray] = {}
        self._handles = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    def reserve(self, capacity: int) -> KVHandle:
        """See `Engine.reserve`."""
        size = self._block_size
        blocks = -(-capacity // size)
        if blocks > self.total:
            raise TandemError(
                ErrorCode.CONTEXT_LENGTH_EXCEEDED,
                f"{capacity} tokens need {blocks} KV blocks; this worker has {self.total} in all",
            )
        with self._lock:
            if blocks > len(self._free):
                raise TandemError(ErrorCode.KV_FULL, f"{blocks} KV blocks needed, {len(self._free)} free")
            mine, self._free = self._free[:blocks], self._free[blocks:]
            self._handles += 1
            self._slots[self._handles] = (np.array(mine)[:, None] * size + np.arange(size)).ravel()
            return KVHandle(handle_id=self._handles, capacity=blocks * size)

    def release(self, handle: KVHandle) -> None:
        """See `Engine.release`."""
        with self._lock:
            slots = self._slots.pop(handle.handle_id, None)
            if slots is not None:
                self._free.extend((slots[:: self._block_size] // self._block_size).tolist())

    def spans(self, handle: KVHandle, start: int, end: int) -> list[tuple[int, int]]:
        """See `Engine.kv_spans`."""
        with self._lock:
            return list(_runs(self._held(handle)[start:end]))

    def export(self, handle: KVHandle, layers: range, start: int, end: int) -> list[memoryview]:
        """See `Engine.export_kv`."""
        with self._lock:
            runs = list(_runs(self._held(handle)[start:end]))
            rows = self._arena[layers.start : layers.stop].reshape(-1, *self._arena.shape[3:])
            return [row[first : first + count].data.cast("B") for row in rows for first, count in runs]

    def take_in(self, handle: KVHandle, layers: range, start: int, end: int, data: memoryview | np.ndarray) -> None:
        """See `Engine.import_kv`."""
        with self._lock:
            slots = self._held(handle)[start:end]
            shape = (len(layers), 2, KV_HEADS, len(slots), HEAD_BYTES)
            block = np.asarray(data, np.uint8)
            if len(slots) != end - start or block.nbytes != np.prod(shape):
                raise ValueError(f"{block.nbytes} bytes do not fit tokens [{start}, {end}) of {len(layers)} layers")
            self._arena[layers.start : layers.stop, :, :, slots] = block.reshape(shape)

    def compute(self, handle: KVHandle, token_ids: list[int], start: int, end: int) -> bool:
        """Write KV of tokens [start, end): bytes drawn from each token's id, place and layer. False: released."""
        rows = np.stack([_token_kv(token_ids[at], at) for at in range(start, end)], axis=3)
        with self._lock:
            slots = self._slots.get(handle.handle_id)
            if slots is None:
                return False
            self._arena[:, :, :, slots[start:end]] = rows
            return True

    def content(self, handle: KVHandle, tokens: int) -> bytes | None:
        """KV of the first `tokens` tokens; None when the handle was released."""
        with self._lock:
            slots = self._slots.get(handle.handle_id)
            return None if slots is None else self._arena[:, :, :, slots[:tokens]].tobytes()

    def _held(self, handle: KVHandle) -> np.ndarray:
        slots = self._slots.get(handle.handle_id)
        if slots is None:
            raise ValueError(f"KV handle {handle.handle_id} is not reserved (any more)")
        return slots


def _runs(slots: np.ndarray) -> Iterator[tuple[int, int]]:
    """`slots` as runs of neighbours (first, count)."""
    borders = np.flatnonzero(np.diff(slots) != 1) + 1
    for run in np.split(slots, borders):
        if len(run):
            yield int(run[0]), len(run)


def _token_kv(token_id: int, position: int) -> np.ndarray:
    """KV of one token, `[LAYERS, 2, KV_HEADS, HEAD_BYTES]` of uint8."""
    words = KV_BYTES_PER_TOKEN // 8
    seeds = [xxhash.xxh3_64_digest(position.to_bytes(4, "little"), seed=token_id * words + i) for i in range(words)]
    return np.frombuffer(b"".join(seeds), np.uint8).reshape(LAYERS, 2, KV_HEADS, HEAD_BYTES)
