"""Whether the router's memory stays where it is over very many requests, of which clients leave some in the middle."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import uvloop

from tests.bench.router.answers import TOKENS
from tests.bench.router.fronts import Front
from tests.bench.router.load import Callers, side_by_side
from tests.bench.rows import Row

#: So small a memory of prompts is full long before the first look, so that what grows after it is a leak.
SETTINGS = {"TANDEM_ROUTER_PREFIX_BLOCKS": "2000"}

_AT_ONCE = 32
_LEAVE, _OF = 3, 10
_LOOKS = 100
#: Requests of the last minute are remembered for their key's rate: before so many seconds, memory may grow.
_SETTLE_S, _SETTLE_SHARE = 65.0, 0.4
_FLAT = 0.02


@dataclass(frozen=True)
class Look:
    requests: int
    seconds: float
    rss_mib: float


def rows(front: Front, requests: int) -> list[Row]:
    looks = uvloop.run(_measure(front, requests))
    settled = [look for look in looks if look.seconds >= _SETTLE_S and look.requests >= requests * _SETTLE_SHARE]
    settled = settled or looks[int(len(looks) * _SETTLE_SHARE) :]
    part = max(1, len(settled) // 5)
    begin, end = (statistics.median(look.rss_mib for look in some) for some in (settled[:part], settled[-part:]))
    since = looks[-1].requests - settled[0].requests
    return [
        Row(
            name=f"memory over {requests:,} requests, {_LEAVE * 100 // _OF} % of them left by the client in the middle",
            unit="MiB",
            value=end,
            compared_with=f"{since:,} requests before",
            reference=begin,
            ratio=end / begin - 1,
            target=_FLAT,
            better="at most",
            judged="share",
            note=f"{looks[0].rss_mib:.1f} MiB at first, {looks[-1].seconds:.0f} s",
            details={"looks": [[look.requests, round(look.seconds, 1), round(look.rss_mib, 2)] for look in looks]},
        )
    ]


async def _measure(front: Front, requests: int) -> list[Look]:
    callers, began = Callers(front.port), time.perf_counter()
    looks: list[Look] = []
    every = max(1, requests // _LOOKS)

    async def one(number: int) -> None:
        if number % every == 0:
            looks.append(Look(number, time.perf_counter() - began, front.rss_mib()))
        leave = number % _OF < _LEAVE
        async with callers.one() as caller:
            seen = await caller.stream(front.request("held" if leave else "burst", number), leave=leave)
        if not leave and seen.tokens < TOKENS:
            raise RuntimeError(f"{front.name} gave {seen.tokens} tokens of {TOKENS}")

    await side_by_side(requests, _AT_ONCE, one)
    looks.append(Look(requests, time.perf_counter() - began, front.rss_mib()))
    callers.close()
    return looks
