"""Waits for KV blocks, first come, first served."""

from __future__ import annotations

import asyncio
from typing import Protocol

from inference.contracts.errors import ErrorCode, TandemError
from inference.engine.interface import KVHandle, TokenIds

_RETRY_S = 0.01


class Reserve(Protocol):
    """`Engine.reserve`, for one answer."""

    def __call__(self, capacity: int, prompt: TokenIds, *, salt: str) -> KVHandle: ...


class BlockQueue:
    """Reserves all or nothing, and lets nobody overtake, so that a big prompt is not starved by small ones.

    waiting, waiting_tokens: who has no blocks yet, for load reports.
    """

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self._turn = asyncio.Lock()
        self.waiting = 0
        self.waiting_tokens = 0

    async def reserve(self, prompt: TokenIds, salt: str, wait_s: float) -> KVHandle:
        """Blocks for `prompt` within `wait_s` seconds.

        Raises:
            TandemError: KV_FULL when they did not become free in time, CONTEXT_LENGTH_EXCEEDED when they never could.
        """
        tokens = len(prompt)
        self.waiting += 1
        self.waiting_tokens += tokens
        try:
            async with asyncio.timeout(wait_s):
                async with self._turn:
                    return await self._until_free(prompt, salt)
        except TimeoutError:
            raise TandemError(
                ErrorCode.KV_FULL, f"no KV blocks for {tokens} tokens became free within {wait_s:g} s"
            ) from None
        finally:
            self.waiting -= 1
            self.waiting_tokens -= tokens

    async def _until_free(self, prompt: TokenIds, salt: str) -> KVHandle:
        """The engine gives blocks back at the end of a step without telling, so this looks again and again."""
        while True:
            try:
                return self._reserve(len(prompt), prompt, salt=salt)
            except TandemError as error:
                if error.code is not ErrorCode.KV_FULL:
                    raise
            await asyncio.sleep(_RETRY_S)
