"""Which KV blocks are free, and who gets which.

Requests get *extents* (runs of neighbouring blocks) rather than single blocks: attention then reads the KV of one
extent in place, without gathering it, which on a CPU is about twice as fast as paging by blocks of 16. Best fit keeps
large runs whole; only when no single run is long enough does a request get several.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """Blocks [start, start + length)."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


class BlockManager:
    """Hands out `total` blocks. Thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = [Extent(0, total)] if total else []  # sorted, never touching each other
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        with self._lock:
            return self.total - sum(extent.length for extent in self._free)

    def allocate(self, count: int) -> tuple[Extent, ...] | None:
        """`count` blocks in as few extents as possible, or None when fewer are free: all or nothing."""
        with self._lock:
            if count > sum(extent.length for extent in self._free):
                return None
            taken: list[Extent] = []
            while count:
                fitting = [extent for extent in self._free if extent.length >= count]
                source = (
                    min(fitting, key=lambda extent: extent.length)
                    if fitting
                    else max(self._free, key=lambda extent: extent.length)
                )
                taken.append(self._take(source, min(count, source.length)))
                count -= taken[-1].length
            return tuple(taken)

    def free(self, extents: tuple[Extent, ...]) -> None:
        """Take `extents` back.

        Raises:
            ValueError: a block among them is free already or does not exist.
        """
        with self._lock:
            for extent in extents:
                self._give(extent)

    def _take(self, source: Extent, length: int) -> Extent:
        at = self._free.index(source)
        rest = Extent(source.start + length, source.length - length)
        self._free[at : at + 1] = [rest] if rest.length else []
        return Extent(source.start, length)

    def _give(self, extent: Extent) -> None:
        at = bisect_left(self._free, extent)
        before = self._free[at - 1] if at else None
        after = self._free[at] if at < len(self._free) else None
        overlaps = (before is not None and before.end > extent.start) or (
            after is not None and after.start < extent.end
        )
        if overlaps or extent.start < 0 or extent.end > self.total:
            raise ValueError(f"blocks [{extent.start}, {extent.end}) are not in use")
        first, last, start, end = at, at, extent.start, extent.end
        if before is not None and before.end == start:
            first, start = at - 1, before.start
        if after is not None and after.start == end:
            last, end = at + 1, after.end
        self._free[first:last] = [Extent(start, end - start)]
