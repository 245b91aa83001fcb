"""Handles of reserved KV blocks, and the one rule that keeps their memory safe.

Whoever reads or writes the KV of a handle *pins* it meanwhile (a running step, an export, an import). Blocks of a
released handle go back once the last pin is gone, so nobody else's tokens can land under a reader or a writer.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.block_manager import BlockManager, Extent
from inference.engine.interface import KVHandle


class SlotMap:
    """Where the tokens of one handle lie in the arena: token `t` of the request is at some slot."""

    def __init__(self, extents: tuple[Extent, ...], block_size: int) -> None:
        self._runs = [(extent.start * block_size, extent.length * block_size) for extent in extents]

    def spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Runs of slots (first slot, length) that hold tokens [start, end), in token order.

        Raises:
            ValueError: there is no room for `end` tokens.
        """
        spans: list[tuple[int, int]] = []
        passed = 0
        for first, length in self._runs:
            begin, stop = max(start - passed, 0), min(end - passed, length)
            if begin < stop:
                spans.append((first + begin, stop - begin))
            passed += length
        if end > passed:
            raise ValueError(f"tokens [{start}, {end}) do not fit a reservation of {passed} tokens")
        return spans

    def slots(self, start: int, end: int) -> list[int]:
        """The slot of each of the tokens [start, end)."""
        return [slot for first, length in self.spans(start, end) for slot in range(first, first + length)]


@dataclass(slots=True)
class _Reservation:
    extents: tuple[Extent, ...]
    slot_map: SlotMap
    pins: int = 0
    released: bool = False


class Reservations:
    """All handles of one engine. Thread-safe."""

    def __init__(self, blocks: BlockManager, block_size: int) -> None:
        self._blocks = blocks
        self._block_size = block_size
        self._held: dict[int, _Reservation] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def reserve(self, capacity: int) -> KVHandle:
        """See `Engine.reserve`."""
        if capacity < 1:
            raise ValueError(f"a reservation is for at least one token, not {capacity}")
        count = -(-capacity // self._block_size)
        if count > self._blocks.total:
            raise TandemError(
                ErrorCode.CONTEXT_LENGTH_EXCEEDED,
                f"{capacity} tokens need {count} KV blocks; this worker has {self._blocks.total} in all",
            )
        extents = self._blocks.allocate(count)
        if extents is None:
            free = self._blocks.total - self._blocks.used
            raise TandemError(ErrorCode.KV_FULL, f"{capacity} tokens need {count} KV blocks; {free} are free now")
        with self._lock:
            handle = KVHandle(handle_id=next(self._ids), capacity=count * self._block_size)
            self._held[handle.handle_id] = _Reservation(extents, SlotMap(extents, self._block_size))
        return handle

    def release(self, handle: KVHandle) -> None:
        """Give the blocks back, now or when the last pin is gone. Idempotent."""
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            if reservation is None:
                return
            reservation.released = True
            self._free_if_unused(handle.handle_id, reservation)

    @contextmanager
    def pin(self, handle: KVHandle) -> Iterator[SlotMap]:
        """Keep the blocks of `handle` in place, even if it is released meanwhile.

        Raises:
            ValueError: the handle is released already.
        """
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            if reservation is None or reservation.released:
                raise ValueError(f"KV handle {handle.handle_id} is not reserved (any more)")
            reservation.pins += 1
        try:
            yield reservation.slot_map
        finally:
            with self._lock:
                reservation.pins -= 1
                self._free_if_unused(handle.handle_id, reservation)

    def _free_if_unused(self, handle_id: int, reservation: _Reservation) -> None:
        if reservation.released and reservation.pins == 0 and self._held.pop(handle_id, None) is not None:
            self._blocks.free(reservation.extents)
