"""The ledger: the account of what keys use, kept in one place for all router processes behind one port.

A process holds what it was granted on its connection, so that whatever ends the process gives back all of it at once:
its requests run no more, and what was presumed of their tokens stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import structlog

from inference.contracts import codec
from inference.process.tasks import end
from inference.router.admission.key_limits import Admission, KeyLimits, Refusal
from inference.router.admission.ledger_messages import (
    Entered,
    Hello,
    Leave,
    ToLedger,
    Verdict,
    Welcome,
    to_ledger,
)
from inference.router.admission.minute import WINDOW_S

#: The name of its socket, in the directory of the processes' own.
SOCKET = "ledger"

#: One line tells all that a process has running.
_LONGEST_LINE = 64 * 1024 * 1024
_log = structlog.get_logger()


class Ledger:
    """clock: monotonic."""

    def __init__(self, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock

    @asynccontextmanager
    async def served(self, directory: Path) -> AsyncIterator[None]:
        """Answer processes while the block lasts.

        Raises:
            OSError: the socket can't be had.
        """
        server = await asyncio.start_unix_server(self._attend, directory / SOCKET, limit=_LONGEST_LINE)
        forgetting = asyncio.create_task(self._forget_old())
        try:
            yield
        finally:
            await end([forgetting])
            server.close()

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One process, as long as its connection lasts."""
        held: dict[int, Admission] = {}
        try:
            while line := await reader.readline():
                answer = self._take(to_ledger.decode(line), held)
                if answer is not None:
                    writer.write(codec.encode(answer) + b"\n")
                    await writer.drain()
        except (OSError, ValueError, msgspec.DecodeError) as error:
            _log.warning("a router is no longer heard", error=str(error))
        finally:
            for admission in held.values():
                self._limits.leave(admission, self._clock())
            writer.close()

    def _take(self, said: ToLedger, held: dict[int, Admission]) -> Welcome | Verdict | None:
        now = self._clock()
        if isinstance(said, Hello):
            for running in said.running:
                held[running.number] = self._limits.resume(running.quota, running.prompts)
            return Welcome()
        if isinstance(said, Leave):
            admission = held.pop(said.number, None)
            if admission is not None:
                admission.prompt_tokens, admission.answer_tokens = said.prompt_tokens, said.answer_tokens
                admission.refused = said.refused
                self._limits.leave(admission, now)
            return None
        if isinstance(said, Entered):
            request = said.request
            held[request.number] = self._limits.entered(request.quota, request.prompts, request.tokens, now)
            return None
        entered = self._limits.enter(said.quota, said.prompts, said.tokens, now)
        if isinstance(entered, Refusal):
            return Verdict(said.number, entered, self._limits.standing(said.quota, now))
        held[said.number] = entered
        return Verdict(said.number, None, self._limits.standing(said.quota, now))

    async def _forget_old(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_S)
            self._limits.forget_old(self._clock())
