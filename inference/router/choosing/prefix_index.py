"""Which workers have KV of which beginnings of prompts: a radix tree over hashed blocks of text.

It is a presumption: fed by what was sent where, and put right by what workers report as cached. A worker may have
dropped what it had, and other routers send it prompts that are not seen here.

Since each hash stands for a block and all before it, the tree is one dictionary from hash to holders. Memory is
bounded: least lately used blocks go first, and of a block that everybody has only some holders are remembered, for whom
anybody will do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from inference.router.choosing.prompt_chain import BLOCK_BYTES, PromptChain
from inference.router.choosing.standing import WorkerKey

_MOST_HOLDERS = 16


class _Holder:
    """A worker, as blocks know it. None: it is gone; so all blocks forget it at once, however many there are."""

    __slots__ = ("worker",)

    def __init__(self, worker: WorkerKey) -> None:
        self.worker: WorkerKey | None = worker


class PrefixIndex:
    """most_blocks: so many are remembered; each costs some 300 bytes, and more where several workers have it."""

    def __init__(self, most_blocks: int) -> None:
        self._most_blocks = most_blocks
        self._holders: OrderedDict[int, dict[_Holder, None]] = OrderedDict()
        self._workers: dict[WorkerKey, _Holder] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def held(self, chain: PromptChain) -> dict[WorkerKey, int]:
        """Leading bytes of the prompt that each worker is presumed to have; workers with nothing are left out."""
        known = 0
        for block in chain.blocks:
            if block not in self._holders:
                break
            known += 1
        held: dict[WorkerKey, int] = {}
        for depth in range(known, 0, -1):
            for holder in self._holders[chain.blocks[depth - 1]]:
                if holder.worker is not None:
                    held.setdefault(holder.worker, depth * BLOCK_BYTES)
            if len(held) >= _MOST_HOLDERS:
                break
        return held

    def note(self, chain: PromptChain, worker: WorkerKey, octets: int | None = None) -> None:
        """`worker` has the first `octets` bytes of the prompt, all of it when None, and of the rest nothing: what was
        presumed of that is taken back."""
        blocks = chain.blocks
        has = len(blocks) if octets is None else min(len(blocks), octets // BLOCK_BYTES)
        holder = self._workers.get(worker)
        if holder is None:
            holder = self._workers[worker] = _Holder(worker)
        for block in blocks[has:]:
            self._take_back(block, holder)
        for block in reversed(blocks[:has]):  # the beginning is the newest, so that ends are forgotten first
            holders = self._holders.setdefault(block, {})
            holders.pop(holder, None)
            holders[holder] = None
            if len(holders) > _MOST_HOLDERS:
                del holders[next((each for each in holders if each.worker is None), next(iter(holders)))]
            self._holders.move_to_end(block)
        while len(self._holders) > self._most_blocks:
            self._holders.popitem(last=False)

    def forget_all_but(self, workers: Collection[WorkerKey]) -> None:
        """Nothing is presumed of the others any more."""
        for worker in [each for each in self._workers if each not in workers]:
            self._workers.pop(worker).worker = None

    def _take_back(self, block: int, holder: _Holder) -> None:
        holders = self._holders.get(block)
        if holders is None:
            return
        holders.pop(holder, None)
        if not holders:
            del self._holders[block]
