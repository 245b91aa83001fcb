"""Schemas that can't be followed are refused before any worker is asked, where the workers' library is ours, too."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from inference.contracts import codec
from inference.contracts.abilities import LLGUIDANCE, Abilities
from inference.contracts.sampling import Grammar
from inference.router.errors import bad_request
from inference.structured import schema

_KEPT = 1024


class Schemas:
    """Judges each schema once and keeps the verdicts on those asked for last. On a thread of its own: one after the
    other, and no stream waits for a complex one."""

    def __init__(self) -> None:
        self._faults: OrderedDict[bytes, str | None] = OrderedDict()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schemas")

    async def require(self, grammar: Grammar | None, abilities: Abilities) -> None:
        """Other engines may follow what ours can't, and the other way round: of theirs nothing is said.

        Raises:
            ApiError: 400 with the field at fault.
        """
        if grammar is None or abilities.schemas != LLGUIDANCE:
            return
        name = hashlib.blake2b(codec.encode(grammar), digest_size=16).digest()
        if name not in self._faults:
            self._keep(name, await asyncio.get_running_loop().run_in_executor(self._thread, schema.fault, grammar))
        self._faults.move_to_end(name)
        reason = self._faults[name]
        if reason is not None:
            field = schema.field_of(grammar)
            raise bad_request(f"{field}: {reason}", field)

    def _keep(self, name: bytes, reason: str | None) -> None:
        self._faults[name] = reason
        if len(self._faults) > _KEPT:
            self._faults.popitem(last=False)

    def close(self) -> None:
        """End the thread; what waits for it is given up."""
        self._thread.shutdown(wait=False, cancel_futures=True)
