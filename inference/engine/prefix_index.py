"""Which block holds the KV of which tokens, so that equal beginnings of prompts are computed once.

Full blocks are named by a chain of hashes: the key of a block covers its tokens, those of all blocks before it, the
model and the salt, so equal keys mean equal KV. The hash is a cryptographic one: whoever could make two prompts collide
could be answered from another's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from inference.engine.interface import TokenIds


class PrefixKeys:
    """Keys of the full blocks of one growing sequence of tokens."""

    def __init__(self, fingerprint: str, salt: str, block_size: int) -> None:
        self._block_size = block_size
        self._origin = hashlib.sha256(f"{fingerprint}\0{salt}".encode()).digest()
        self._keys: list[bytes] = []

    def first(self, count: int, token_ids: TokenIds) -> list[bytes]:
        """Keys of the first `count` blocks of `token_ids`, which only ever grow from call to call."""
        for at in range(len(self._keys), count):
            tokens = token_ids[at * self._block_size : (at + 1) * self._block_size]
            before = self._keys[-1] if self._keys else self._origin
            self._keys.append(hashlib.sha256(before + np.array(tokens, dtype=np.uint32).tobytes()).digest())
        return self._keys[:count]

    def copy(self) -> PrefixKeys:
        """Keys of the same tokens, which from here on may grow in another way."""
        twin = PrefixKeys.__new__(PrefixKeys)
        twin._block_size, twin._origin, twin._keys = self._block_size, self._origin, list(self._keys)
        return twin


class PrefixIndex:
    """Keys of blocks -> where such a block is. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._block_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._block_of)

    def __contains__(self, block: int) -> bool:
        return block in self._key_of

    def find(self, keys: Sequence[bytes]) -> list[int]:
        """The blocks of the longest known beginning of a chain."""
        found: list[int] = []
        for key in keys:
            block = self._block_of.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def add(self, key: bytes, block: int) -> None:
        """`block` holds what `key` names. The first block that does stays the one that is found."""
        if key not in self._block_of:
            self.forget((block,))
            self._block_of[key], self._key_of[block] = block, key

    def forget(self, blocks: Iterable[int]) -> None:
        """These blocks will hold something else."""
        for block in blocks:
            key = self._key_of.pop(block, None)
            if key is not None:
                del self._block_of[key]
