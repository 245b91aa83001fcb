"""Limits of keys over all router processes behind one port: each asks the ledger, which the process that started them
keeps. Requests of keys without limits are not asked about.

A process counts for itself, too. While the ledger does not answer that count decides alone, so that serving goes on:
a key may get its limits once per process then. What was let in meanwhile and still runs is told when the ledger is
back; what has ended by then it never counts. What is let in from then until the ledger's answer is heard is told as it
comes: nothing waits for a ledger of which it is not known whether it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import structlog

from inference.contracts import codec
from inference.process.tasks import end, keep_running
from inference.router.admission.key_limits import Admission, KeyLimits, Quota, Refusal, Standing
from inference.router.admission.ledger import SOCKET
from inference.router.admission.ledger_messages import (
    Enter,
    Entered,
    Hello,
    Leave,
    Running,
    ToLedger,
    Verdict,
    Welcome,
    from_ledger,
)

_AGAIN_S = 0.5
_log = structlog.get_logger()


class SharedLimiter:
    """own: the count of this process. directory: of the ledger's socket. answers_within_s: how long it may take.
    clock: monotonic."""

    def __init__(self, own: KeyLimits, directory: Path, answers_within_s: float, clock: Callable[[], float]) -> None:
        self._own = own
        self._socket = directory / SOCKET
        self._answers_within_s = answers_within_s
        self._clock = clock
        self._numbers = count()
        self._running: dict[Admission, int] = {}
        self._asked: dict[int, asyncio.Future[Verdict]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._there = False
        self._known = asyncio.Event()
        self._away_told = False
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look for the ledger, for ever; returns when it is known whether it is there."""
        self._listening = asyncio.create_task(keep_running(self._listen))
        try:
            async with asyncio.timeout(self._answers_within_s):
                await self._known.wait()
        except TimeoutError:
            self._is_away("it does not answer")

    async def close(self) -> None:
        if self._listening is not None:
            await end([self._listening])

    async def enter(self, quota: Quota, prompts: int, tokens: int) -> tuple[Admission | Refusal, Standing]:
        now = self._clock()
        admission = self._own.enter(quota, prompts, tokens, now)
        standing = self._own.standing(quota, now)
        if isinstance(admission, Refusal) or not quota.limited:
            return admission, standing
        number = self._running[admission] = next(self._numbers)
        try:
            verdict = await self._verdict(Enter(number, quota, prompts, tokens))
        except BaseException:
            admission.answered_nothing(refused=True)
            self.leave(admission)
            raise
        if verdict is None:
            return admission, standing
        if verdict.refusal is None:
            return admission, verdict.standing
        admission.answered_nothing(refused=True)
        self.leave(admission)
        return verdict.refusal, verdict.standing

    def leave(self, admission: Admission) -> None:
        self._own.leave(admission, self._clock())
        number = self._running.pop(admission, None)
        if number is not None:
            self._say(Leave(number, admission.prompt_tokens, admission.answer_tokens, admission.refused))

    async def _verdict(self, enter: Enter) -> Verdict | None:
        """None: the ledger does not answer."""
        if not self._there:
            self._say(Entered(enter))
            return None
        asked: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._asked[enter.number] = asked
        try:
            self._say(enter)
            async with asyncio.timeout(self._answers_within_s):
                return await asked
        except (TimeoutError, ConnectionError):
            self._is_away("it did not answer in time")
            return None
        finally:
            self._asked.pop(enter.number, None)

    def _say(self, message: ToLedger) -> None:
        """Where there is a connection; `Hello` is the first that is said on it."""
        if self._writer is not None:
            self._writer.write(codec.encode(message) + b"\n")

    async def _listen(self) -> None:
        """Connect, take verdicts until the connection ends, and again."""
        while True:
            try:
                async with asyncio.timeout(self._answers_within_s):
                    reader, self._writer = await asyncio.open_unix_connection(self._socket)
                self._say(Hello([Running(number, each.quota, each.prompts) for each, number in self._running.items()]))
                while line := await reader.readline():
                    self._take(from_ledger.decode(line))
                self._is_away("it has ended the connection")
            except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as error:
                self._is_away(str(error))
            finally:
                self._hang_up()
            await asyncio.sleep(_AGAIN_S)

    def _take(self, said: Welcome | Verdict) -> None:
        if isinstance(said, Welcome):
            self._there = True
            self._known.set()
            if self._away_told:
                self._away_told = False
                _log.info("the ledger answers again: limits of keys hold over all router processes")
            return
        asked = self._asked.get(said.number)
        if asked is not None and not asked.done():
            asked.set_result(said)

    def _is_away(self, why: str) -> None:
        """Go on without it, and hang up: it gives back then what this process has, and is told anew of that."""
        self._hang_up()
        self._known.set()
        if not self._away_told:
            self._away_told = True
            _log.warning("the ledger is away: each router process counts for itself what keys use", why=why)

    def _hang_up(self) -> None:
        self._there = False
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ConnectionResetError("the ledger is away"))
