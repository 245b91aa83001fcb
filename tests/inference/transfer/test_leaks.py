"""However hand-offs end, no KV block, connection or mapping stays behind on either side."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from inference.contracts.errors import ErrorCode, TandemError
from inference.testing.stub_settings import StubSettings
from inference.testing.tampered_link import TamperedLink
from inference.transfer.base import TransferLimits
from inference.transfer.tickets import HeldTicket, TicketState
from tests.inference.transfer.pushing_process import PushingProcesses
from tests.inference.transfer.rig import BY_MEMORY, OVER_TCP, PROMPT, Rig, rig

ENDS = 1000
KILLS = 12
AT_ONCE = 8
LEASE_S = 60.0

#: So small that nothing here waits for a peer that is gone.
LIMITS = TransferLimits(
    open_s=2, frame_s=0.3, verdict_s=0.3, abort_s=0.3, idle_s=0.2, frame_bytes=600, shared_frame_bytes=600
)

by_transport = pytest.mark.parametrize("settings", [OVER_TCP, BY_MEMORY], ids=["tcp", "shared_memory"])


@pytest.fixture(autouse=True)
async def nothing_stays_open() -> AsyncIterator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Ends:
    """One way for a hand-off to end each, at a moment that is drawn."""

    def __init__(self, r: Rig, bad: TamperedLink, dice: random.Random) -> None:
        self.r, self.bad, self.dice = r, bad, dice

    async def well(self, ticket: HeldTicket) -> None:
        await self.r.push(ticket)

    async def cancelled(self, ticket: HeldTicket) -> None:
        """The prefill worker's client leaves."""
        push = asyncio.create_task(self.r.push(ticket))
        await turns(self.dice.randrange(80))
        push.cancel()
        await push

    async def left(self, ticket: HeldTicket) -> None:
        """The decode worker's client leaves."""
        push = asyncio.create_task(self.r.push(ticket))
        await turns(self.dice.randrange(80))
        self.r.tickets.abort(ticket, TandemError(ErrorCode.CANCELLED, "the client left"))
        await push

    async def link_cut(self, ticket: HeldTicket) -> None:
        self.bad.cut_at = self.dice.randrange(5000)
        await self.r.push(ticket, target=self.bad.address)

    async def receiver_killed(self, ticket: HeldTicket) -> None:
        """One of its connections ends without a word; whose it is, is drawn too."""
        push = asyncio.create_task(self.r.push(ticket))
        await turns(self.dice.randrange(80))
        serving = [task for task in self.r.receiver._tasks if "_serve" in repr(task)]
        if serving:
            self.dice.choice(serving).cancel()
        await push

    async def damaged(self, ticket: HeldTicket) -> None:
        self.bad.cut_at, self.bad.flip_at = None, self.dice.randrange(5000)
        await self.r.push(ticket, target=self.bad.address)

    async def expired(self, ticket: HeldTicket) -> None:
        push = asyncio.create_task(self.r.push(ticket))
        await turns(self.dice.randrange(80))
        ticket.expires_at = 0
        self.r.tickets.expire_due()
        await push


async def one(end: Callable, ticket: HeldTicket, outcomes: Counter, limit: asyncio.Semaphore) -> None:
    async with limit:
        with contextlib.suppress(TandemError, asyncio.CancelledError):
            await end(ticket)
        outcomes[end.__name__, ticket.state is TicketState.COMMITTED] += 1


@by_transport
async def test_a_thousand_aborts_kills_and_cuts_leave_no_block_behind(settings):
    dice, outcomes, now = random.Random(6), Counter(), [0.0]
    engines = StubSettings(kv_blocks=6 * ENDS)
    async with (
        rig(
            settings=settings,
            limits=LIMITS,
            prefill_settings=engines,
            decode_settings=engines,
            lease_s=LEASE_S,
            clock=lambda: now[0],
            most_tickets=ENDS,
        ) as r,
        TamperedLink(r.target) as bad,
    ):
        ways = Ends(r, bad, dice)
        kinds = [ways.well, ways.cancelled, ways.left, ways.link_cut, ways.receiver_killed, ways.damaged, ways.expired]
        limit = asyncio.Semaphore(AT_ONCE)
        tickets = [r.reserve(f"{number} {PROMPT}") for number in range(ENDS)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(one(dice.choice(kinds), ticket, outcomes, limit) for ticket in tickets))
            assert r.free()[0] == 0  # a push that is over holds nothing
            while r.tickets.count(TicketState.FILLING):
                await asyncio.sleep(0.005)
        assert not r.receiver._fills._open
        for ticket in tickets:
            if ticket.state is TicketState.COMMITTED:
                r.tickets.close(ticket)
        now[0] += LEASE_S  # those of which the decode worker never heard a word
        r.tickets.expire_due()
        assert (r.free(), len(r.tickets)) == ((0, 0), 0)
    assert outcomes["well", True] > 50
    assert {end for end, committed in outcomes if not committed} >= {kind.__name__ for kind in kinds[1:]}


@by_transport
async def test_killed_prefill_processes_leave_no_block_behind(settings):
    """SIGKILL at a drawn moment, with what they share mapped here."""
    dice = random.Random(7)
    async with rig(limits=LIMITS) as r, PushingProcesses(sys.executable) as processes:
        for number in range(KILLS):
            ticket = r.reserve(f"{number} {PROMPT * 4}")
            killed = await processes.push(r.target, ticket, settings.transports, over_s=0.2)
            async with asyncio.timeout(5):
                while ticket.state is TicketState.RESERVED:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(dice.random() * 0.15)
            killed()
            async with asyncio.timeout(5):
                while ticket.state is TicketState.FILLING:
                    await asyncio.sleep(0.001)
            assert ticket.state is TicketState.ABORTED
            assert r.free()[1] == 0
