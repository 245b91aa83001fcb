"""Handles of reserved KV blocks, what may be shared of them, and the one rule that keeps their memory safe.

Whoever reads or writes the KV of a handle *pins* it meanwhile (a running step, an export, an import). Blocks of a
released handle go back once the last pin is gone, so nobody else's tokens can land under a reader or a writer.

KV that a handle shares with an earlier request is copied into its own blocks (512 tokens take a few milliseconds,
reading them takes about a hundred times as long), so every request keeps one run of memory. Between reserving and
copying, the blocks that it will be copied from are held too.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.block_manager import BlockManager, Extent
from inference.engine.interface import KVHandle, TokenIds
from inference.engine.prefix_index import PrefixIndex, PrefixKeys

#: How much less a block is worth than the one before it: without its beginning nobody finds a prompt's end.
_WORTH_STEP = 2.0**-20


@dataclass(frozen=True, slots=True)
class CopySpan:
    """KV of `length` slots from `source` on is to be copied to the slots from `target` on."""

    source: int
    target: int
    length: int


class SlotMap:
    """Where the tokens of one answer lie in the arena: token `t`, counted from the start of the prompt, is at some
    slot."""

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
class _Answer:
    """Blocks of one answer. keys: None when they are not shared. offered: how many of them others may find."""

    extents: tuple[Extent, ...]
    slot_map: SlotMap
    keys: PrefixKeys | None = None
    offered: int = 0

    @property
    def blocks(self) -> list[int]:
        return [block for extent in self.extents for block in range(extent.start, extent.end)]


@dataclass(eq=False, slots=True)
class _Reservation:
    """cached: the beginning of its prompt that is shared."""

    handle_id: int
    answers: list[_Answer]
    cached: tuple[int, ...]
    pins: int = 0
    released: bool = False


@dataclass(frozen=True, slots=True)
class _Copy:
    """Into `targets` belongs what is in the first of `sources`, block by block. held: the sources are held for it."""

    reservation: _Reservation
    sources: list[int]
    targets: list[int]
    held: bool


class Reservations:
    """All handles of one engine. Thread-safe.

    fingerprint: the model's, see `EngineInfo`. share: whether requests share KV of equal beginnings.
    """

    def __init__(self, total_blocks: int, block_size: int, *, fingerprint: str = "", share: bool = True) -> None:
        self._blocks = BlockManager(total_blocks)
        self._block_size = block_size
        self._fingerprint = fingerprint
        self._share = share
        self._index = PrefixIndex()
        self._held: dict[int, _Reservation] = {}
        self._uncopied: list[_Copy] = []
        self._ids = itertools.count(1)
        self._uses = itertools.count(1)
        self._lock = threading.Lock()

    @property
    def total_blocks(self) -> int:
        return self._blocks.total

    @property
    def used_blocks(self) -> int:
        with self._lock:
            return self._blocks.used

    # -- blocks come and go ------------------------------------------------------------------------

    def reserve(self, capacity: int, prompt: TokenIds = (), *, answers: int = 1, salt: str = "") -> KVHandle:
        """See `Engine.reserve`."""
        if capacity < 1 or answers < 1:
            raise ValueError(f"a reservation is for at least one token and one answer, not {capacity} and {answers}")
        count = -(-capacity // self._block_size)
        self._check_possible(capacity, answers, count * answers)
        self._check_free(count * answers)
        keys, wanted = self._keys(prompt, salt)
        with self._lock:
            self._touch(self._index.find(wanted))  # what is about to be used is given away last
            made = [_Answer(extents, SlotMap(extents, self._block_size)) for extents in self._take(count, answers)]
            made[0].keys = keys
            sources = self._index.find(wanted)
            self._blocks.hold(_extents(sources))
            cached = tuple(prompt[: len(sources) * self._block_size])
            reservation = _Reservation(next(self._ids), made, cached)
            self._held[reservation.handle_id] = reservation
            if sources:
                self._uncopied.append(_Copy(reservation, sources, made[0].blocks, held=True))
        return KVHandle(reservation.handle_id, count * self._block_size, len(cached))

    def release(self, handle: KVHandle) -> None:
        """Give the blocks back, now or when the last pin is gone. Idempotent."""
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            if reservation is None:
                return
            reservation.released = True
            self._free_if_unused(reservation)

    @contextmanager
    def pin(self, handle: KVHandle, answer: int = 0) -> Iterator[SlotMap]:
        """Keep the blocks of `handle` in place, even if it is released meanwhile; those of one answer are told.

        Raises:
            ValueError: the handle is released already.
        """
        with self._lock:
            reservation = self._find(handle)
            reservation.pins += 1
        try:
            yield reservation.answers[answer].slot_map
        finally:
            self._unpin(reservation)

    # -- KV is shared --------------------------------------------------------------------------------

    def cached(self, handle: KVHandle, token_ids: TokenIds) -> int:
        """How many of the first of `token_ids` need not be computed: `handle.cached_tokens`.

        Raises:
            ValueError: the handle was reserved for another prompt, or is released already.
        """
        with self._lock:
            cached = self._find(handle).cached
        if tuple(token_ids[: len(cached)]) != cached:
            raise ValueError(f"KV handle {handle.handle_id} was reserved for another prompt")
        return len(cached)

    def fork(self, handle: KVHandle, tokens: int, answer: int) -> None:
        """KV of the first `tokens` tokens is complete for the first answer of `handle`; another shall have it too."""
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            if reservation is None or reservation.released:
                return
            first, other = reservation.answers[0], reservation.answers[answer]
            other.keys, other.offered = first.keys and first.keys.copy(), first.offered
            blocks = first.blocks[: -(-tokens // self._block_size)]
            self._uncopied.append(_Copy(reservation, blocks, other.blocks, held=False))

    @property
    def copies_are_due(self) -> bool:
        return bool(self._uncopied)

    @contextmanager
    def due_copies(self) -> Iterator[list[CopySpan]]:
        """What must be copied, in this order, before any KV that was shared or forked so far is read. Copy within the
        block."""
        with self._lock:
            due, self._uncopied = self._uncopied, []
            for copy in due:
                copy.reservation.pins += 1
        try:
            yield [span for copy in due for span in self._spans(copy.sources, copy.targets)]
        finally:
            for copy in due:
                with self._lock:
                    self._let_go(copy)
                self._unpin(copy.reservation)

    def offer(self, handle: KVHandle, token_ids: TokenIds, tokens: int, answer: int = 0) -> None:
        """KV of the first `tokens` of `token_ids` is computed: others may use it. `token_ids` only ever grow."""
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            if reservation is None:
                return
            own = reservation.answers[answer]
            full = tokens // self._block_size
            if own.keys is None or full <= own.offered:
                return
            new = slice(own.offered, full)
            for key, block in zip(own.keys.first(full, token_ids)[new], own.blocks[new], strict=True):
                self._index.add(key, block)
            own.offered = full

    def withdraw(self, handle: KVHandle) -> None:
        """What was computed into the blocks of `handle` is doubtful: nobody finds it any more."""
        with self._lock:
            reservation = self._held.get(handle.handle_id)
            for answer in reservation.answers if reservation is not None else ():
                answer.keys = None
                self._index.forget(answer.blocks)
                for block in answer.blocks:
                    self._blocks.value(block, 0)

    # -- small pieces, called with the lock held where they touch what is shared ---------------------------

    def _check_possible(self, capacity: int, answers: int, blocks: int) -> None:
        if blocks > self._blocks.total:
            many = f"{answers} answers of " if answers > 1 else ""
            raise TandemError(
                ErrorCode.CONTEXT_LENGTH_EXCEEDED,
                f"{many}{capacity} tokens need {blocks} KV blocks; this worker has {self._blocks.total} in all",
            )

    def _check_free(self, blocks: int) -> None:
        free = self._blocks.total - self._blocks.used
        if blocks > free:
            raise TandemError(ErrorCode.KV_FULL, f"{blocks} KV blocks are needed; {free} are free now")

    def _keys(self, prompt: TokenIds, salt: str) -> tuple[PrefixKeys | None, list[bytes]]:
        """The chain of a prompt, and the keys worth looking for: the last token must be computed in any case."""
        if not self._share or not prompt:
            return None, []
        keys = PrefixKeys(self._fingerprint, salt, self._block_size)
        return keys, keys.first((len(prompt) - 1) // self._block_size, prompt)

    def _take(self, count: int, answers: int) -> list[tuple[Extent, ...]]:
        self._check_free(count * answers)
        taken = [extents for _ in range(answers) if (extents := self._blocks.allocate(count)) is not None]
        self._index.forget(
            block for extents in taken for extent in extents for block in range(extent.start, extent.end)
        )
        return taken

    def _find(self, handle: KVHandle) -> _Reservation:
        reservation = self._held.get(handle.handle_id)
        if reservation is None or reservation.released:
            raise ValueError(f"KV handle {handle.handle_id} is not reserved (any more)")
        return reservation

    def _unpin(self, reservation: _Reservation) -> None:
        with self._lock:
            reservation.pins -= 1
            self._free_if_unused(reservation)

    def _free_if_unused(self, reservation: _Reservation) -> None:
        if not reservation.released or reservation.pins or self._held.pop(reservation.handle_id, None) is None:
            return
        for copy in [copy for copy in self._uncopied if copy.reservation is reservation]:
            self._uncopied.remove(copy)
            self._let_go(copy)
        for answer in reservation.answers:
            self._touch([block for block in answer.blocks if block in self._index])
            self._blocks.free(answer.extents)

    def _let_go(self, copy: _Copy) -> None:
        if copy.held:
            self._blocks.free(_extents(copy.sources))

    def _touch(self, chain: list[int]) -> None:
        """These blocks, in order of their tokens, are of use now."""
        used_at = next(self._uses)
        for place, block in enumerate(chain):
            self._blocks.value(block, used_at - place * _WORTH_STEP)

    def _spans(self, sources: list[int], targets: list[int]) -> list[CopySpan]:
        """Copies from `sources` to the first of `targets`, block by block, neighbours in one."""
        size = self._block_size
        spans: list[CopySpan] = []
        for source, target in zip(sources, targets, strict=False):
            last = spans[-1] if spans else None
            if last and (last.source + last.length, last.target + last.length) == (source * size, target * size):
                spans[-1] = CopySpan(last.source, last.target, last.length + size)
            else:
                spans.append(CopySpan(source * size, target * size, size))
        return spans


def _extents(blocks: list[int]) -> list[Extent]:
    return [Extent(block, 1) for block in blocks]
